/*
 * A data abort of a Cortex-A15 (QEMU's virt) without any kernel: a store to where nothing is. The handlers are loops.
 *
 *     arm-none-eabi-gcc -mcpu=cortex-a15 -marm -Og -g -nostdlib -ffreestanding -Wl,-Ttext=0x40200000 -Wl,-e,_start
 */
__attribute__((noinline)) void store_far(unsigned at)
{
    *(volatile unsigned *)at = 7;
}

__attribute__((noinline)) void start_work(void)
{
    store_far(0xF0000000u);
}

__asm__(".global _start\n"
        "_start: ldr sp, =0x40300000\n"
        "ldr r0, =vectors\n"
        "mcr p15, 0, r0, c12, c0, 0\n"
        "bl start_work\n"
        "b .\n"
        ".balign 32\n"
        "vectors: b .\n b .\n b .\n b .\n b data_abort\n b .\n b .\n b .\n"
        ".type data_abort, %function\n"
        "data_abort: b data_abort\n"
        ".size data_abort, . - data_abort\n");
