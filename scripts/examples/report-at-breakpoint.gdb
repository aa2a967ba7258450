# Runs the target to a breakpoint and saves a report of what led there.
#
#     gdb-multiarch -batch -ex 'source tx_trace.py' -ex 'target remote :3333' -x report-at-breakpoint.gdb app.elf
#
# Writes report.md (all reports, as Markdown) and report.core (all evidence of the stop, which `tx-trace` and GDB read
# later) into the current directory, and prints where the target stopped and the newest events. The target stays
# stopped there. GDB's status is 0, 1 where the answer is no (no trace in this target), or an error's: whatever fails
# ends the script.
#
# To change: the place in the line with hbreak; a breakpoint in RAM is `break`.

set pagination off
set confirm off
# A name that is not there is an error, instead of a breakpoint that is never hit.
set breakpoint pending off
# What an earlier run has left is not taken for this one's.
shell rm -f report.md report.core

hbreak watchdog_report
continue

echo \nreport-at-breakpoint: stopped at\n
backtrace 8
tx-trace last 20
tx-trace dump -o report.core
tx-trace report --format md -o report.md
set $report_status = $_tx_trace_exit

# The stub of QEMU and that of most probes leave a target stopped that is left so; `detach` would let it run.
delete
disconnect
quit $report_status
