#!/bin/sh
# Compares the words in the arm64 kernels with what the GNU assembler makes of
# the instructions that stand next to them.
#
#	encodings.sh FILE.s
set -e
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
grep -o 'WORD \$0x[0-9a-f]* // .*' "$1" | sort -u >"$dir/words"
{ echo '.arch armv8.6-a+fp16'; sed 's|.*// ||' "$dir/words"; } >"$dir/in.s"
aarch64-linux-gnu-as -o "$dir/out.o" "$dir/in.s"
aarch64-linux-gnu-objdump -d "$dir/out.o" | awk '/^ +[0-9a-f]+:/ { print "0x" $2 }' >"$dir/got"
paste "$dir/got" "$dir/words" | awk '{ n++; if ("$" $1 != $3) { print "the assembler writes " $0; bad = 1 } } END { print n " different instructions"; exit bad }'
