# The GDB command `tx-trace` for a GDB without Python, from GDB 10 on.
#
#     (gdb) source tx_trace.gdb
#     (gdb) tx-trace last 50
#
# Static data and the trace buffer are dumped into a private directory below
# /tmp, the program tx-trace reads them there, and the directory is removed.
# The program is found on the PATH, or named by TX_TRACE_BIN in the environment
# of GDB. A shell sees the words: quote what it would interpret, as in
# --event 'tx_queue_*'. At most nine words.

# An ELF and a target are not trusted. Their text reaches neither a shell's command line nor a GDB expression: of what
# `info files` prints, only addresses are used, and only where they are hexadecimal digits. The expressions below name
# symbols in quotes and no types, as GDB would expand a macro of the program there.

define __tx_trace_memory
  set $_tx_trace_ready = 0
  pipe info variables ^_tx_trace_header_ptr$ | grep -q " _tx_trace_header_ptr\|[*]_tx_trace_header_ptr"
  if $_shell_exitcode == 0
    __tx_trace_dump
  else
    echo error: GDB has no symbol _tx_trace_header_ptr: no program with symbols is loaded, or its kernel was built without TX_ENABLE_EVENT_TRACE\n
    set $_tx_trace_exit = 1
  end
end
document __tx_trace_memory
Part of tx-trace: dumps what the program reads, where there is anything.
end

define __tx_trace_dump
  set $_tx_trace_exit = 2
  pipe x/xa &'_tx_trace_header_ptr' | cat >/dev/null
  set $_tx_trace_from = $__
  if $_tx_trace_from == 0
    echo error: _tx_trace_header_ptr is 0: the trace was never enabled (tx_trace_enable), or there is no process, core or remote target here\n
    set $_tx_trace_exit = 1
  else
    pipe x/xa &'_tx_trace_buffer_end_ptr' | cat >/dev/null
    set $_tx_trace_to = $__
    # The number of this GDB's process, in three parts, as an exit status has eight bits.
    shell exec /bin/sh -c 'exit $((PPID & 255))'
    set $_tx_trace_pid = $_shell_exitcode
    shell exec /bin/sh -c 'exit $((PPID >> 8 & 255))'
    set $_tx_trace_pid = $_tx_trace_pid + $_shell_exitcode * 256
    shell exec /bin/sh -c 'exit $((PPID >> 16 & 255))'
    set $_tx_trace_pid = $_tx_trace_pid + $_shell_exitcode * 65536
    shell exec /bin/sh -c 'umask 077; d=/tmp/tx-trace-gdb-$PPID; rm -rf "$d" && mkdir "$d"'
    if $_shell_exitcode != 0
      echo error: no temporary directory can be made in /tmp\n
    else
      # GDB cannot catch its own errors. The reader of this pipe can: it removes the directory when the dumps are not
      # complete.
      pipe __tx_trace_images | trap "" INT; cat; [ -e /tmp/tx-trace-gdb-$PPID/complete ] || rm -rf /tmp/tx-trace-gdb-$PPID
      shell exec /bin/sh -c '[ -e /tmp/tx-trace-gdb-$PPID/complete ]'
      if $_shell_exitcode == 0
        set $_tx_trace_ready = 1
      end
    end
  end
end
document __tx_trace_dump
Part of tx-trace: dumps what the program reads.
end

# A register's name is neither a symbol nor a macro. One that this processor does not have is `void`.
define __tx_trace_registers
@REGISTERS@
end
document __tx_trace_registers
Part of tx-trace: shows the registers that the program knows, on every processor that it knows.
end

define __tx_trace_images
  pipe output/x $_tx_trace_from | cat >/tmp/tx-trace-gdb-$PPID/from
  pipe output/x $_tx_trace_to | cat >/tmp/tx-trace-gdb-$PPID/to
  # Without threads there are no registers. A register that has no value is left out.
  if $_thread > 0 && $_tx_trace_registers
    pipe frame apply level 0 -q -s __tx_trace_registers | LC_ALL=C; cd /tmp/tx-trace-gdb-$PPID || exit; \
      while IFS== read -r name value; do \
        case $value in 0x?*) case ${value#0x} in *[!0-9a-f]*) ;; *) echo "--debugger-reg $name=$value" ;; esac ;; esac; \
      done >registers
  end
  # The addresses of the program's sections become commands that dump them, and options for tx-trace.
  pipe info files | LC_ALL=C; cd /tmp/tx-trace-gdb-$PPID || exit; tab=$(printf '\t'); room=268435456; n=0; covered= ; at=start; \
    address() { \
      case $1 in 0x[0-7]???????????????) ;; 0x????????????????*) return 1 ;; 0x?*) ;; *) return 1 ;; esac; \
      case ${1#0x} in *[!0-9a-f]*) return 1 ;; esac; \
    }; \
    fail() { echo "echo error: $*\\n" >go.gdb; exit; }; \
    image() { \
      size=$(($2 - $1)); \
      if [ $size -gt $room ] || [ $n -ge 256 ]; then return 1; fi; \
      room=$((room - size)); \
      echo "dump binary memory /tmp/tx-trace-gdb-$PPID/$n.bin $1 $2"; \
      echo "--image $n.bin@$1" >>options; \
      n=$((n + 1)); \
    }; \
    section() { \
      case $1 in *" - "*" is "*) ;; *) return ;; esac; \
      first=${1%% *}; rest=${1#"$first - "}; last=${rest%% *}; name=${rest#"$last is "}; \
      if ! address "$first" || ! address "$last" || [ $(($first)) -ge $(($last)) ]; then return; fi; \
      case $name in \
        *" in "*) ;; \
        .data* | .bss* | .sdata* | .sbss* | .noinit*) \
          if image "$first" "$last" && [ $(($first)) -le $(($from)) ] && [ $(($last)) -ge $(($to)) ]; then covered=1; fi ;; \
      esac; \
    }; \
    from=$(cat from); to=$(cat to); : >elf; exec >go.gdb; \
    if ! address "$from" || ! address "$to" || [ $(($from)) -ge $(($to)) ]; then \
      fail "the kernel has no buffer from _tx_trace_header_ptr to _tx_trace_buffer_end_ptr"; \
    fi; \
    echo "--header $from" >options; if [ -e registers ]; then cat registers >>options; fi; \
    while IFS= read -r line; do \
      case $at in \
        start) if [ "$line" = "Local exec file:" ]; then at=file; fi ;; \
        file) \
          at=entry; \
          case $line in "$tab"?*"', file type "*) p=${line#??}; printf %s "${p%"', file type "*}" >elf ;; esac ;; \
        *) \
          entry=${line#"${tab}Entry point: "}; \
          if [ $at = entry ] && address "$entry"; then echo "--entry $entry" >>options; fi; \
          at=sections; section "${line#"$tab"}" ;; \
      esac; \
    done; \
    if [ ! "$covered" ] && ! image "$from" "$to"; then fail "the trace buffer is too large to be dumped"; fi; \
    echo "shell : >/tmp/tx-trace-gdb-$PPID/complete"
  eval "source /tmp/tx-trace-gdb-%d/go.gdb", $_tx_trace_pid
end
document __tx_trace_images
Part of tx-trace: dumps what the program reads into a directory that is there.
end

define tx-trace
  if $argc == 0
    shell exec "${TX_TRACE_BIN:-tx-trace}" --help
  else
    if $argc > @MOST@
      echo error: at most @MOST@ words can be passed on without Python\n
      set $_tx_trace_exit = 2
    else
      # Only these commands use registers. An option may come before the command.
      shell exec /bin/sh -c 'case $1 in threads | explain | report | timeline | export | dump | serve | -*) ;; *) exit 1 ;; esac' tx-trace $arg0
      set $_tx_trace_registers = $_shell_exitcode == 0
      __tx_trace_memory
      if $_tx_trace_ready
@RUN@
        set $_tx_trace_exit = $_shell_exitcode
      end
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
$_tx_trace_exit is 0 after success, 1 for not found, 2 for an error.
end

# These read no memory.
define-prefix tx-trace
@PLAIN@
