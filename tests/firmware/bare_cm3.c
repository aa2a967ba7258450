/*
 * Code by which a Cortex-M comes to a wrong address, without any kernel: it never runs. A test has the words that the exception
 * pushed.
 *
 *     arm-none-eabi-gcc -mcpu=cortex-m3 -mthumb -Og -g -nostdlib -ffreestanding -Wl,-Ttext=0 -Wl,-e,sync_volume
 */
__asm__(".syntax unified\n"
        ".thumb\n"
        ".word 0x20001000, HardFault_Handler, HardFault_Handler, HardFault_Handler\n"
        ".space 0x100 - 16\n"

        /* return v->ops->sync(v): a call at the very end. */
        ".global sync_volume\n"
        ".type sync_volume, %function\n"
        "sync_volume: ldr r2, [r0]\n"
        "ldr r2, [r2, #12]\n"
        "bx r2\n"
        ".size sync_volume, . - sync_volume\n"

        ".global close_segment\n"
        ".type close_segment, %function\n"
        "close_segment: push {r4, lr}\n"
        "bl sync_volume\n"
        "movs r0, #0\n"
        "pop {r4, pc}\n"
        ".size close_segment, . - close_segment\n"

        ".global count_pages\n"
        ".type count_pages, %function\n"
        "count_pages: ldr r0, [r0, #4]\n"
        "bx lr\n"
        ".size count_pages, . - count_pages\n"

        /* goto *labels[step] behind a call. */
        ".global next_step\n"
        ".type next_step, %function\n"
        "next_step: push {r4, lr}\n"
        "bl count_pages\n"
        "ldr r3, [r4]\n"
        "mov pc, r3\n"
        "pop {r4, pc}\n"
        ".size next_step, . - next_step\n"
        ".balign 4\n");

void HardFault_Handler(void);
void HardFault_Handler(void)
{
    for (;;) {
    }
}
