"""Scripts without anything unknown, read by the evaluator and run by bash: the same words in the same order."""

from __future__ import annotations

import shutil
import subprocess
from itertools import product

import pytest
from launch.launched import commands

from rooflinecli.importers.launch.shell_evaluator import ShellEvaluator

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
    "shift_all() { while [ $# -gt 0 ]; do run $1 $#; shift; done; }; shift_all a b c; two() { shift 2; run \"$@\" $#; }; two a b c d",
    "f() { run ${1:-none} ${2:-none} ${10:-none} $#; }; f 1 2 3 4 5 6 7 8 9 ten eleven; f",
    "f() { g \"$1\" in; run f $1; }; g() { set -- $2 $1; run g $1 $2; }; f out; run \"$#\"",
    "for i in \"${L[@]}\"; do if [ \"$i\" = one ]; then K=$i; elif [[ $i == four ]]; then K+=$i; fi; done; run $K",
    "for f in a b; do case $f in a) continue_with=$f;; esac; run $f $continue_with; done; run last",
    "case ab in [!a]*) run no;; a[b-c]) run yes;; esac; case a in b) run no;; esac; run on",
    "[ $A = 1 ] && run and; [ $A = 2 ] || run or; [ $A = 1 ] && [ -n \"$B\" ] || run both; true && run t1 && run t2; ! false && run n",
    "A=2 B=3; run $A$B; A=$B C=$A; run $A $C; export D=4 E=$A; run $D $E; readonly F=6; run $F; declare G=7; run $G; local_() { local a=1 b=2; run $a $b; }; local_",
    "V=abc; run ${V:+x$V} \"${V:+x $V}\" ${Z:+x}y; run ${#V} ${#L[1]}; U='*'; run \"$U\" \"${U}x\"",
    "run 'a\nb' \"a\nb\" \"tab\\tx\" a\\\\b; run --x=\"$C\" --y='$A' --z=$A,$A; run \"$A\"\"$C\"'$B'",
    "X='a b'; Y=\"$X c\"; run $Y; Z=\"--opt '$X'\"; run \"$Z\"; eval run $Z; W=\"run e $A\"; eval $W; eval \"$W; $W\"",
    "run $((0)) $((1)) $((A - 1)) $((2 * (3 + A))) $((100 / 7 / 2)) $((100 % 7 * 2)) $(( 8 - 3 - 2 )) $((-3 + -A))",
    "if [ $A -eq 1 ] && [ -z \"$B\" ]; then run 1; fi; if [ $A -eq 2 ] || [ -z \"$B\" ]; then run 2; fi; if ! { [ $A -eq 2 ]; }; then run 3; fi",
    "if [ $A -eq 1 ]; then if [ $A -eq 2 ]; then run a; else run b; fi; else run c; fi; if false; then run d; elif true; then run e; else run f; fi",
    "g() { if [ \"$1\" = stop ]; then return; fi; run $1; }; g go; h() { run h; }; h; h() { run again; }; h",
    "N= ; run ${N:-a}${N-b}c; unset_=1; run ${unset_}x; run a$B$B; run \"a$B\" $B$A",
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


FILES = (
    "echo one > a; echo two >> a; echo three > b; echo four > b", "echo x >> new; echo \"$A $C\" >> new", "cat > c <<EOF\na $A\n  b \\$A\nEOF",
    "cat <<'EOF' > d\na $A\nEOF\ncat >> d <<EOF\nmore\nEOF", "cat <<-EOF > e\n\tindented $A\n\t\ttwice\n\tEOF", "cat <<< \"$C\" > f", "echo -e 'a\\tb\\nc' >| g",
    "cat <<\\EOF > h\n$A \"quoted\"\nEOF", "for i in 1 2; do echo line $i >> k; done; echo first > l; if [ $A = 1 ]; then echo then >> l; else echo else >> l; fi",
    "cat <<EOF > m\nsay \"$C\" and 'this'\nEOF\nsed -i 's/say/said/;s|this|that|' m", "T=x; echo a > $T.txt; echo b > \"${T}2.txt\"",
    "{ echo in; } ; echo p > n; echo > o", "cat <<EOF > q\n\nEOF",
)  # fmt: skip


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_writes_the_same_files(tmp_path):
    wrong = []
    for number, text in enumerate(FILES):
        (folder := tmp_path / str(number)).mkdir()
        subprocess.run(["bash", "-c", SET + text], cwd=folder, check=True)
        written = {file.name: file.read_text() for file in folder.iterdir()}
        found = ShellEvaluator().read(SET + text).files
        if found != written or not found:
            wrong.append((text, found, written))
    assert wrong == []
