#!/bin/sh
# Assembles the committed PTX with a real ptxas for several chips and prints one
# row per kernel. Fails on an error, a stack frame, a spill, a warning or an
# advice (C75xx: wgmma serialised).
# usage: PTXAS=/path/to/ptxas ./check_ptxas.sh [CHIPS80 [CHIPS90a]]
# ptxas is in PyPI's nvidia-cuda-nvcc (13.x) and nvidia-cuda-nvcc-cu12 wheels and
# in triton's. It is NVIDIA's: use it, never commit it.
set -u
: "${PTXAS:?set PTXAS to a ptxas binary}"
here=$(cd "$(dirname "$0")" && pwd) t=$(mktemp -d) bad=0
trap 'rm -rf "$t"' EXIT
echo "ptxas $("$PTXAS" --version | grep -o 'V[0-9][0-9.]*' | tail -1)"
echo '| kernel | chip | registers | stack | spill st/ld | static smem | ptxas |'
echo '|---|---|---|---|---|---|---|'
one() { # flavour chip
  gunzip -c "$here/ptx/$1.ptx.gz" >"$t/k.ptx"
  if ! "$PTXAS" -v -arch="$2" "$t/k.ptx" -o "$t/k.cubin" 2>"$t/log"; then
    grep -m3 -i -E 'error|fatal' "$t/log"
    bad=1
    return
  fi
  advice=$(grep -o -E '\(C75[0-9]+\)|[Ww]arning' "$t/log" | sort -u | tr '\n' ' ')
  [ -z "$advice" ] || { bad=1; grep -E 'C75|arning' "$t/log"; }
  awk -v c="$2" -v a="${advice:-clean}" '
    /Compiling entry function/ {split($0, q, "\047"); k = q[2]}
    /bytes stack frame/ {s = $1; x = $5 "/" $9; f = ($1 + $5 + $9 > 0) || f}
    /Used [0-9]+ registers/ {m = 0; for (i = 2; i <= NF; i++) { if ($i == "registers,") r = $(i-1); if ($i ~ /^smem/) m = $(i-2) }
      printf "| %s | %s | %s | %s | %s | %s | %s |\n", k, c, r, s, x, m, a | "sort"}
    END {close("sort"); exit f}' "$t/log" || bad=1
}
for chip in ${1:-sm_80 sm_86 sm_89 sm_90 sm_100 sm_120}; do one sm_80 "$chip"; done
for chip in ${2:-sm_90a}; do one sm_90a "$chip"; done
[ $bad = 0 ] && echo ok || echo FAILED
exit $bad
