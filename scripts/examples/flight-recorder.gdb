# A flight recorder: at every crash it saves an evidence core and starts the target again, until the limit.
#
#     gdb-multiarch -batch -ex 'source tx_trace.py' -ex 'target remote :3333' -x flight-recorder.gdb app.elf
#     gdb-multiarch ... -ex 'set $crash_limit = 5' -x flight-recorder.gdb app.elf
#
# Writes crash-001.core, crash-002.core and so on into the current directory; files that are there are not written
# over. Read them with `tx-trace last 50 --elf app.elf --core crash-001.core`. GDB's status is 0 at the limit; an
# error (the link is gone, the disk is full) ends the recording with a status that is not.
#
# To change: where a crash arrives (hbreak), and how this probe resets its target (restart_target).

# So that a board that crashes at every start does not fill the disk.
init-if-undefined $crash_limit = 100

define restart_target
  # QEMU. OpenOCD: monitor reset halt. J-Link: monitor reset. A handler that returns needs none.
  monitor system_reset
end

set pagination off
set confirm off
# A name that is not there is an error, instead of a breakpoint that is never hit.
set breakpoint pending off

python
import os

def find_number():
    """Sets $crash_number to the first that is free."""
    number = 1
    while os.path.exists(f"crash-{number:03}.core"):
        number += 1
    gdb.execute(f"set $crash_number = {number}")
end

set $crashes = 0
# The first instruction of the handler: the registers are still those of the crash.
hbreak *HardFault_Handler
commands
  silent
  python find_number()
  printf "\nflight-recorder: crash-%03d.core\n", $crash_number
  eval "tx-trace dump -o crash-%03d.core", $crash_number
  tx-trace last 8
  set $crashes = $crashes + 1
  if $crashes >= $crash_limit
    echo flight-recorder: that was the last one\n
    disconnect
    quit 0
  end
  restart_target
  continue
end
continue
