#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Usage: thunks.sh driver|runtime LIST CODE < names of functions
# Writes assembly: a function of each name that jumps to NAME__work, and the list by which objcopy gives that name to what had it.
#   driver   as libcuda.so.1 has them (470 to 555): a state is compared, a branch, and a jump through a pointer at a fixed place
#   runtime  a pointer is loaded and jumped to: nothing in it is emulated by the kernel
set -eu
kind=$1 list=$2 code=$3
: > "$list"
{
	echo '.section .note.GNU-stack,"",@progbits'
	echo '.local thunks_state; .comm thunks_state, 4, 4'
	while read -r name; do
		echo "$name ${name}__work" >> "$list"
		echo ".data; .balign 8; ${name}__at: .quad ${name}__work; .hidden ${name}__work"
		echo ".text; .balign 32; .globl $name; .type $name, @function; $name:"
		case $kind in
		driver) echo "	cmpl \$0x600d5eed, thunks_state(%rip); je 1f; jmp *${name}__at(%rip); .balign 8; 1: mov \$4, %eax; ret" ;;
		runtime) echo "	mov ${name}__at(%rip), %rax; jmp *%rax" ;;
		esac
		echo ".size $name, . - $name"
	done
} > "$code"
test -s "$list" || { echo "thunks.sh: no function is named" >&2; exit 1; }
