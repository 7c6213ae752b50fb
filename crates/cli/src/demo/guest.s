# A guest of `tactus demo --vm`: a boot sector that does the same work in every period, and reports each job.
#
# A job is released every `period`, computes for `work` of CPU time, and is due when the next one is released. After a job,
# the guest writes four bytes to the debug port: how long after its release the job started, and how long after its
# release it ended, each as 16 bits in units of 16 ticks. A job whose deadline has passed before it could start is skipped,
# and reported with all bits set.
#
# All times are in ticks of the ACPI PM timer: 24 bits, 3.579545 MHz (ACPI 6.5, section 4.8.3.3), three ticks of the PIT.

        .code16
        .text
begin:  jmp     start
        .org    4
period: .long   35795                   # set by the host
work:   .long   7159                    # set by the host

        .set    PM_TIMER, 0x608
        .set    DEBUG, 0xe9
        .set    LOOPS, 100000           # loops of a measurement of the speed
        .set    TRIES, 64

start:  ljmp    $0, $(0x7c00 + main - begin)
main:   cli
        xor     %ax, %ax
        mov     %ax, %ds
        mov     %ax, %ss
        mov     $0x7c00, %sp
        movw    $(0x7c00 + timer - begin), 0x20         # interrupt 8: the PIT
        movw    $0, 0x22
        mov     $0xfe, %al                              # no other interrupt
        out     %al, $0x21
        mov     $0xff, %al
        out     %al, $0xa1

# The number of loops in `work`, by the fastest of some tries: the host may run other threads during a try.
        mov     $TRIES, %di
        mov     $0xffffff, %ebp
try:    call    now
        mov     %eax, %esi
        mov     $LOOPS, %ecx
        call    loops
        call    now
        sub     %esi, %eax
        and     $0xffffff, %eax
        cmp     %ebp, %eax
        jae     1f
        mov     %eax, %ebp
1:      dec     %di
        jnz     try
        mov     0x7c00 + work - begin, %eax
        mov     $LOOPS, %ebx
        mul     %ebx
        div     %ebp
        mov     %eax, %edi                              # loops of a job
        call    now
        mov     %eax, %esi                              # release of the job

next:   add     0x7c00 + period - begin, %esi
        and     $0xffffff, %esi
wait:   call    passed
        test    $0x800000, %eax
        jz      job                                     # it is released
        neg     %eax
        and     $0xffffff, %eax                         # ticks until the release
        xor     %edx, %edx
        mov     $3, %ebx
        div     %ebx
        inc     %eax
        cmp     $0xffff, %eax
        jbe     1f
        mov     $0xffff, %eax
1:      mov     %eax, %ebx
        mov     $0x30, %al                              # channel 0, both bytes, mode 0: one interrupt
        out     %al, $0x43
        mov     %bl, %al
        out     %al, $0x40
        mov     %bh, %al
        out     %al, $0x40
        sti
        hlt
        cli
        jmp     wait

job:    call    report
        mov     %edi, %ecx
        call    loops
        call    report
skip:   call    passed                                  # is the deadline of the next job over?
        mov     0x7c00 + period - begin, %ebx
        add     %ebx, %ebx
        cmp     %ebx, %eax
        jb      next
        add     0x7c00 + period - begin, %esi
        and     $0xffffff, %esi
        mov     $0xffffffff, %eax
        call    write
        call    write
        jmp     skip

# Writes how many ticks have passed since the release.
report: call    passed
        shr     $4, %eax
        cmp     $0xfffe, %eax
        jbe     write
        mov     $0xfffe, %eax
write:  mov     $DEBUG, %dx
        out     %al, %dx
        xchg    %ah, %al
        out     %al, %dx
        ret

# Returns in %eax the ticks since the release. Before the release, bit 23 is set.
passed: call    now
        sub     %esi, %eax
        and     $0xffffff, %eax
        ret

now:    mov     $PM_TIMER, %dx
        in      %dx, %eax
        and     $0xffffff, %eax
        ret

loops:  dec     %ecx
        jnz     loops
        ret

timer:  push    %ax
        mov     $0x20, %al
        out     %al, $0x20
        pop     %ax
        iret

        .org    510
        .word   0xaa55
