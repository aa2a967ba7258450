#!/bin/sh
# Builds the fixture firmware: all variants for the Cortex-M3, for this host, for
# big-endian PowerPC, and for two pretended cores. Not among `all`: `live`, a
# Cortex-M3 that never fails and looks at its own ring (check.c), and `riscv`,
# uses.c for a RISC-V.
#
#     tests/firmware/build.sh OUTDIR [cm3|crashes|failures|resources|waits|uses|faults|stalls|host|be|smp|live|riscv]
set -eu

usage() {
    echo "usage: $0 OUTDIR [cm3|crashes|failures|resources|waits|uses|faults|stalls|host|be|smp|live|riscv]" >&2
    exit 2
}

[ $# -ge 1 ] && [ $# -le 2 ] || usage
case ${2:-all} in all | cm3 | crashes | failures | resources | waits | uses | faults | stalls | host | be | smp | live | riscv) which=${2:-all} ;; *) usage ;; esac

need() {
    command -v "$1" >/dev/null 2>&1 || {
        echo "$0: $1 is missing (Debian package: $2)" >&2
        exit 1
    }
}

mkdir -p "$1"
out=$(cd "$1" && pwd)
src=$(cd "$(dirname "$0")" && pwd)

# From here every path is relative, and what is not is mapped away: no
# absolute path may get into a file that is committed.
cd "$src"
common="-std=gnu11 -Og -g -fno-omit-frame-pointer -Wall -Wextra -Werror
        -fno-strict-aliasing -DFW_MAY_BE_REPLACED= -ffile-prefix-map=$src=. -ffile-prefix-map=/usr=usr -Wl,--build-id=sha1"

# name variant
variants='crash FW_CRASH
never FW_NEVER
notrace FW_NOTRACE
disabled FW_DISABLED
unwrapped FW_UNWRAPPED
straddle FW_STRADDLE'

if [ "$which" = all ] || [ "$which" = cm3 ]; then
    need arm-none-eabi-gcc gcc-arm-none-eabi
    need arm-none-eabi-strip binutils-arm-none-eabi
    echo "$variants" | while read -r name variant; do
        # shellcheck disable=SC2086 # the words of $common are options
        arm-none-eabi-gcc $common -mcpu=cortex-m3 -mthumb -ffreestanding -nostdlib \
            -ffunction-sections -fdata-sections -Wl,--gc-sections -T mps2.ld \
            "-DFW_VARIANT=$variant" kernel.c trace.c app.c port_cm3.c -lgcc \
            -o "$out/cm3-$name.elf"
        echo "built cm3-$name.elf"
    done
    # Another application: events without end.
    # shellcheck disable=SC2086
    arm-none-eabi-gcc $common -mcpu=cortex-m3 -mthumb -ffreestanding -nostdlib \
        -ffunction-sections -fdata-sections -Wl,--gc-sections -T mps2.ld \
        -DFW_VARIANT=FW_CRASH kernel.c trace.c stream.c port_cm3.c -lgcc -o "$out/cm3-stream.elf"
    echo "built cm3-stream.elf"
    arm-none-eabi-strip -o "$out/cm3-crash.stripped.elf" "$out/cm3-crash.elf"
    echo "built cm3-crash.stripped.elf"
fi

if [ "$which" = all ] || [ "$which" = crashes ]; then
    need arm-none-eabi-gcc gcc-arm-none-eabi
    # Crashes on purpose, chosen at the start.
    # shellcheck disable=SC2086
    arm-none-eabi-gcc $common -mcpu=cortex-m3 -mthumb -ffreestanding -nostdlib \
        -ffunction-sections -fdata-sections -Wl,--gc-sections -T mps2.ld -UFW_MAY_BE_REPLACED \
        -DFW_MAY_BE_REPLACED='__attribute__((weak))' -DFW_VARIANT=FW_CRASH \
        kernel.c trace.c crashes.c port_cm3.c -lgcc -o "$out/cm3-crashes.elf"
    echo "built cm3-crashes.elf"
fi

# The names of ThreadX for the functions of the pretended kernel, which a debugger sees.
names=
for name in semaphore_get semaphore_put queue_send queue_receive block_allocate block_release byte_allocate byte_release \
    mutex_get mutex_put thread_create thread_relinquish thread_sleep thread_suspend thread_resume thread_terminate time_get; do
    names="$names -Dmk_$name=_tx_$name"
done
names="$names -Dmk_flags_get=_tx_event_flags_get -Dmk_flags_change=_tx_event_flags_set"

for failing in failures resources waits uses faults; do
    [ "$which" = all ] || [ "$which" = "$failing" ] || continue
    need arm-none-eabi-gcc gcc-arm-none-eabi
    # Failures of a system on purpose, chosen at the start; the second has other names, priorities and another tick.
    case $failing in
        failures) wrap=-Wl,--wrap=mk_thread_sleep ;;
        waits) wrap=-Wl,--wrap=mk_trace ;;
        uses | faults) wrap="-DFW_NAMES $names -DFW_CHECKPOINT_EVERY=64" ;;
        *) wrap= ;;
    esac
    for other in "" "-DFW_OTHER -DFW_TICK_CYCLES=100000u"; do
        # shellcheck disable=SC2086
        arm-none-eabi-gcc $common -mcpu=cortex-m3 -mthumb -ffreestanding -nostdlib $other \
            -ffunction-sections -fdata-sections -Wl,--gc-sections -T mps2.ld \
            $wrap -DFW_WAY=0x20010000u -DFW_VARIANT=FW_CRASH \
            kernel.c trace.c $failing.c port_cm3.c -lgcc -o "$out/cm3-$failing${other:+-other}.elf"
        echo "built cm3-$failing${other:+-other}.elf"
    done
done

if [ "$which" = riscv ]; then
    need riscv64-unknown-elf-gcc gcc-riscv64-unknown-elf
    # shellcheck disable=SC2086
    riscv64-unknown-elf-gcc $common -march=rv32imac_zicsr -mabi=ilp32 -mcmodel=medany -ffreestanding -nostdlib \
        -ffunction-sections -fdata-sections -Wl,--gc-sections -Wl,--build-id=none -T virt.ld -DFW_NAMES $names -DFW_CHECKPOINT_EVERY=64 \
        -DFW_WAY=0x80020000u -DFW_VARIANT=FW_CRASH kernel.c trace.c uses.c port_riscv.c -lgcc -o "$out/riscv-uses.elf"
    echo "built riscv-uses.elf"
fi

if [ "$which" = all ] || [ "$which" = stalls ]; then
    need arm-none-eabi-gcc gcc-arm-none-eabi
    # A CPU that does not go on, and interrupts that do not come; the second as above.
    for other in "" "-DFW_OTHER -DFW_TICK_CYCLES=100000u"; do
        # shellcheck disable=SC2086
        arm-none-eabi-gcc $common -mcpu=cortex-m3 -mthumb -ffreestanding -nostdlib $other \
            -ffunction-sections -fdata-sections -Wl,--gc-sections -T mps2.ld -DFW_STALLS -DFW_VARIANT=FW_CRASH \
            -Wl,--wrap=mk_tick,--wrap=mk_isr,--wrap=port_tick,--wrap=port_disable,--wrap=port_restore \
            kernel.c trace.c stalls.c port_cm3.c -lgcc -o "$out/cm3-stalls${other:+-other}.elf"
        echo "built cm3-stalls${other:+-other}.elf"
    done
fi

if [ "$which" = all ] || [ "$which" = host ]; then
    need gcc gcc
    application=app.c
    host() { # name variant options
        name=$1 variant=$2
        shift 2
        # shellcheck disable=SC2086
        gcc $common "-DFW_VARIANT=$variant" "$@" kernel.c trace.c "$application" port_host.c -o "$out/host-$name.elf"
        echo "built host-$name.elf"
    }
    case $(uname -m) in
    x86_64)
        host crash FW_CRASH -fPIE -pie
        application=stream.c
        host stream FW_CRASH -fPIE -pie
        application=app.c
        ;;
    *) echo "skipped host-crash.elf: only on x86-64 has the Linux port 4-byte words" >&2 ;;
    esac
    case $(getconf LONG_BIT) in
    64) host ulong64 FW_CRASH -fPIE -pie -DULONG64 ;;
    *) echo "skipped host-ulong64.elf: this host is not 64-bit" >&2 ;;
    esac
fi

# Bare Linux processes for QEMU's user mode: no library, so nothing but the
# firmware is in the program and in its core.
bare="-ffreestanding -nostdlib -static -fno-pie -no-pie -ffunction-sections -fdata-sections
      -Wl,--gc-sections -Wl,--undefined=SystemCoreClock -Wl,-z,max-page-size=4096 -DFW_VARIANT=FW_CRASH"

if [ "$which" = all ] || [ "$which" = be ]; then
    need powerpc-linux-gnu-gcc gcc-powerpc-linux-gnu
    # shellcheck disable=SC2086
    powerpc-linux-gnu-gcc $common $bare -mcpu=powerpc -msoft-float \
        kernel.c trace.c app.c port_linux.c -lgcc -o "$out/be-crash.elf"
    echo "built be-crash.elf"
fi

if [ "$which" = all ] || [ "$which" = smp ]; then
    need arm-none-eabi-gcc gcc-arm-none-eabi
    # shellcheck disable=SC2086
    arm-none-eabi-gcc $common $bare -mcpu=cortex-a9 -marm -mfloat-abi=soft -DFW_CORES=2 \
        kernel.c trace.c app.c port_linux.c -lgcc -o "$out/smp-crash.elf"
    echo "built smp-crash.elf"
fi

if [ "$which" = live ]; then
    need arm-none-eabi-gcc gcc-arm-none-eabi
    # The story never begins, so that it runs for ever; all the kernel's own
    # functions of the trace are there to be called.
    # shellcheck disable=SC2086
    arm-none-eabi-gcc $common -mcpu=cortex-m3 -mthumb -ffreestanding -nostdlib \
        -ffunction-sections -fdata-sections -Wl,--gc-sections -T mps2.ld \
        -Wl,--wrap=mk_thread_sleep -Wl,--undefined=_tx_trace_disable \
        -DFW_VARIANT=FW_CRASH -DFW_STORY_AT=0x7fffffffu kernel.c trace.c app.c port_cm3.c check.c -lgcc \
        -o "$out/cm3-live.elf"
    echo "built cm3-live.elf"
fi
