"""Scripts without anything unknown, read by the evaluator and run by bash: the same words in the same order."""

from __future__ import annotations

import shutil
import subprocess
from itertools import product

import pytest
from launch.launched import commands

SET = "A=1 B= C='a b' P=org/x/y/name.tar.gz L=(one 'two three' four); unset N\n"
WORDS = (
    "${P#*/} ${P##*/} ${P%/*} ${P%%/*} ${P%.gz} ${P%.*} ${P%%.*} ${P#none} ${P%[a-z]*} ${P##*[xy]}",
    "${A:-d} ${B:-d} ${N:-d} ${A-d} ${B-d}x ${N-d} ${A:+w} ${B:+w}x ${B+w} ${N+w}x ${N:-${B:-deep}} ${N:-$A/$A} \"${N:-a  b}\" ${N:-a  b}",
    "${N:=made} $N ${N=other} ${#A} ${#C} ${#P} \"${A:?unset}\"",
    "${L[@]} \"${L[@]}\" ${L[*]} \"${L[*]}\" ${L[1]} \"${L[1]}\" ${#L[@]} $L ${L} \"x${L[2]}y\"",
    "$C \"$C\" x${C}y \"x${C}y\" $B \"$B\" '' \"\" ''$A 'a'\"b $A\"c\\ d '$A' \"\\$A\" \"\\\\\" \\\\ \"it's\" 'say \"so\"' \"a\\nb\"",
    "$((A + 2 * 3)) $(((A + 2) * 3)) $((7 / 2)) $((7 % 3)) $((-7 / 2)) $((-7 % 3)) $((- A + 1)) $(($A*8 - 1)) $((${#C} * 2)) $((${N:-4} / 2))",
    "$(echo a b) \"$(echo a b)\" `echo $A` x$(echo $C)y \"$(echo \"$C\")\" $(echo \"${P##*/}\")",
    "a # no word\nrun b#c 'd # e' \\\n f; run g; run h",
)  # fmt: skip
SCRIPTS = (
    "L+=(five); L+=(\"$C\" $C); run ${#L[@]} \"${L[@]}\"; A+=0; run $A; B+=' x'; run $B; M=(); M+=(1); run ${M[@]}",
    "S=' a  b '; run x$S y${S}z \"$S\"; T=$S; run \"$T\"; E=\"$C $C\"; run $E \"$E\"; W='--k v'; Q=($W \"$W\"); run \"${Q[@]}\"",
    "f() { run $1 $# \"$@\"; }; g() { f \"$2\" x; run $1; }; f a 'b c'; g 1 '2 3'; f",
    "f() { local A=5; B=$1; run $A $B; }; f 3; run $B",
    "set -- p 'q r'; run $1 \"$@\"; eval \"run $C '$C'\"; X='run k'; $X; eval \"Y=\\$A\"; run $Y",
    "for i in 1 $C \"$C\" ${L[@]}; do for j in a b; do run $i$j; done; done; run $i",
    *(f"case {word} in a) run 1;; b|c*) run 2;; [xy]?z) run 3;; *) run 4;; esac" for word in ("a", "b", "cde", "xyz", "xyyz", '"$C"', "$A")),
    *(f"if {test}; then run yes; else run no; fi" for test in (
        *(f"[ {a} -{sign} {b} ]" for sign, (a, b) in product(("eq", "ne", "gt", "ge", "lt", "le"), ((1, 2), (2, 2), (3, 2), (-1, 1)))),
        '[ -z "$B" ]', '[ -n "$B" ]', '[ -z "$A" ]', '[ -n "$A" ]', '[ "$A" ]', '[ "$B" ]', '! [ "$B" ]', '[ "$A" = 1 ]', '[ "$A" == 2 ]', '[ "$A" != 1 ]', '[ ! "$A" = 1 ]',
        "[[ $P == org/* ]]", "[[ $P != *.gz ]]", "[[ $P == name ]]", "[[ -n $A && -z $B ]]", "[[ -z $A || -z $B ]]", "[[ -z $A || -n $B ]]", "[[ $A == 1 && ! $B == 1 ]]",
        "[[ ($A == 2 || $A == 1) && -z $B ]]", "[[ ! $A == 1 ]]", "[[ ! $A -gt 1 ]]", "[[ ! -n $A ]]", "test $A -ge 1", "test ! $A = 1", "true", "false", "! true", "[[ -n $A && ( -z $A || -n $B ) ]]",
    )),
    "if [ $A = 2 ]; then run 1; elif [ $A = 1 ]; then run 2; elif [ $A = 1 ]; then run 3; else run 4; fi",
    "if [ $A = 2 ]; then A=3; elif [ -n \"$B\" ]; then A=4; fi; run $A; if [ $A = 1 ]; then A=9; run in; fi; run $A",
    "if [ $A = 1 ]; then run first; exit 0; fi; run never", "if [ $A = 2 ]; then exit 1; fi; run on", "run a; exit; run b", "while false; do run no; done; until true; do run no; done; run end",
    "{ run a; ( run b ); }; run c &\nwait", "read -r -d '' T <<EOF\nx $A\nEOF\nrun $T; read -r -d '' T <<'EOF'\nx $A\nEOF\nrun $T",
)  # fmt: skip


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_runs_the_same_words():
    scripts = [SET + text for text in (*(f"run {words}" for words in WORDS), *SCRIPTS)]
    printed = "run() { printf '%s\\x1f' \"$@\"; printf '\\x1e'; }\n"
    whole = printed + "".join(f"(\n{text}\n)\nprintf '\\x1d'\n" for text in scripts)
    ran = subprocess.run(["bash", "-c", whole], capture_output=True, text=True).stdout.split("\x1d")[:-1]
    wanted = [[call.split("\x1f")[:-1] for call in one.split("\x1e")[:-1]] for one in ran]
    found = [[words[1:] for words in commands(text) if words[0] == "run"] for text in scripts]
    assert len(wanted) == len(scripts)
    assert [x for x in zip(scripts, found, wanted, strict=True) if x[1] != x[2]] == []
