# The GDB command `tx-trace` for a GDB without Python, from GDB 10 on.
#
#     (gdb) source tx_trace.gdb
#     (gdb) tx-trace last 50
#
# Static data and the trace buffer are dumped into a private directory below
# /tmp, the program tx-trace reads them there, and the directory is removed.
# The program is found on the PATH, or named by TX_TRACE_BIN in the environment
# of GDB. A shell sees the words: quote what it would take for its own, as in
# --event 'tx_queue_*'. At most nine words.

define __tx_trace_memory
  set $_tx_trace_ready = 0
  pipe info variables ^_tx_trace_header_ptr$ | grep -q " _tx_trace_header_ptr\|[*]_tx_trace_header_ptr"
  if $_shell_exitcode == 0
    __tx_trace_dump
  else
    echo tx-trace: GDB has no symbol _tx_trace_header_ptr: no program with symbols is loaded, or its kernel was built without TX_ENABLE_EVENT_TRACE\n
    set $_tx_trace_exit = 1
  end
end
document __tx_trace_memory
Part of tx-trace: dumps what the program reads, where there is anything.
end

define __tx_trace_dump
  set $_tx_trace_exit = 2
  set $_tx_trace_from = *(unsigned long *)&_tx_trace_header_ptr
  if $_tx_trace_from == 0
    echo tx-trace: _tx_trace_header_ptr is 0: the trace was never enabled (tx_trace_enable), or there is no process, core or remote target here\n
    set $_tx_trace_exit = 1
  else
    set $_tx_trace_to = *(unsigned long *)&_tx_trace_buffer_end_ptr
    # Both ends are read before anything is made: an error would leave it behind.
    set $_tx_trace_probe = *(unsigned char *)$_tx_trace_from + *(unsigned char *)($_tx_trace_to - 1)
    # The number of this GDB's process, in three parts, as an exit status has eight bits.
    shell exec /bin/sh -c 'exit $((PPID & 255))'
    set $_tx_trace_pid = $_shell_exitcode
    shell exec /bin/sh -c 'exit $((PPID >> 8 & 255))'
    set $_tx_trace_pid = $_tx_trace_pid + $_shell_exitcode * 256
    shell exec /bin/sh -c 'exit $((PPID >> 16 & 255))'
    set $_tx_trace_pid = $_tx_trace_pid + $_shell_exitcode * 65536
    shell exec /bin/sh -c 'umask 077; d=/tmp/tx-trace-gdb-$PPID; rm -rf "$d" && mkdir "$d"'
    if $_shell_exitcode != 0
      echo tx-trace: no temporary directory can be made in /tmp\n
    else
      eval "shell echo 0x%lx 0x%lx >/tmp/tx-trace-gdb-%d/place", $_tx_trace_from, $_tx_trace_to, $_tx_trace_pid
      # What GDB says of the program's sections becomes commands that dump them, and options for tx-trace.
      pipe info files | cd /tmp/tx-trace-gdb-$PPID && read -r from to <place && { \
        n=0; exec= ; covered= ; echo "--header $from" >options; : >elf; \
        image() { echo "dump binary memory /tmp/tx-trace-gdb-$PPID/$n.bin $1 $2"; \
          echo "--image $n.bin@$1" >>options; n=$((n + 1)); }; \
        while IFS= read -r line; do \
          case $line in \
            "Local exec file:") exec=1; continue ;; \
          esac; \
          if [ ! "$exec" ]; then continue; fi; \
          case $line in \
            *"', file type "*) p=${line#??}; printf %s "${p%"', file type "*}" >elf ;; \
            *"Entry point: 0x"*) echo "--entry ${line##*: }" >>options ;; \
            *" in "*) ;; \
            *" is .data"* | *" is .bss"* | *" is .sdata"* | *" is .sbss"* | *" is .noinit"*) \
              set -- $line; \
              if [ $(($1)) -le $((from)) ] && [ $(($3)) -ge $((to)) ]; then covered=1; fi; \
              if [ $(($1)) -ne $(($3)) ]; then image $1 $3; fi ;; \
          esac; \
        done; \
        if [ ! "$covered" ]; then image $from $to; fi; } >go.gdb
      eval "source /tmp/tx-trace-gdb-%d/go.gdb", $_tx_trace_pid
      set $_tx_trace_ready = 1
    end
  end
end
document __tx_trace_dump
Part of tx-trace: dumps what the program reads.
end

define tx-trace
  if $argc == 0
    shell exec "${TX_TRACE_BIN:-tx-trace}" --help
  else
    __tx_trace_memory
    if $_tx_trace_ready
@RUN@
      set $_tx_trace_exit = $_shell_exitcode
    end
  end
end
document tx-trace
What the RTOS did last: its event trace, out of the target's memory.

Usage: tx-trace COMMAND [ARGUMENT]... [OPTION]...

    tx-trace last 50                        the newest 50 events
    tx-trace list --event 'tx_queue_*'      quote what a shell would take for its own
    tx-trace show -1                        the newest event in full

Without Python: static data and the trace buffer are dumped, and the program tx-trace reads the dumps.
$_tx_trace_exit is 0 after success, 1 where the answer is no, 2 where it could not look.
end

# These read no memory.
define-prefix tx-trace
@PLAIN@
