/*
 * A store access fault of a RISC-V (QEMU's virt) without any kernel. The trap handler is a loop.
 *
 *     riscv64-unknown-elf-gcc -march=rv32imac_zicsr -mabi=ilp32 -Og -g -nostdlib -ffreestanding -Wl,-Ttext=0x80000000 -Wl,-e,_start
 */
__attribute__((noinline)) void store_far(unsigned long at)
{
    *(volatile unsigned *)at = 7;
}

__attribute__((noinline)) void start_work(void)
{
    store_far(0xF0000000u);
}

__asm__(".global _start\n"
        "_start: la sp, 0x80100000\n"
        "la t0, trap\n"
        "csrw mtvec, t0\n"
        "call start_work\n"
        "1: j 1b\n"
        ".balign 4\n"
        ".type trap, %function\n"
        "trap: j trap\n"
        ".size trap, . - trap\n");
