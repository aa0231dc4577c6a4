#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Completion for bash and zsh offers every command, every option of a command and every variant, and
# nothing that kpolicy refuses.
. tests/lib.sh
. tests/kpolicy.sh

cd "$KP_TMP"
"$KPOLICY" list | sed -n 's/^\([a-z]*:[^ ][^ ]*\) .*/\1/p' | grep . >variants
"$KPOLICY" compare --help | grep -oE -- '(^| ) --[a-z-]+' | tr -d ' ' | grep . >options
"$KPOLICY" --help | sed -n 's/^  kpolicy \([a-z]*\) .*/\1/p' | sort -u >commands
[ "$(wc -l <variants)" -ge 30 ] && [ "$(wc -l <options)" -ge 20 ] && [ "$(wc -l <commands)" = 6 ] ||
	fail "$(wc -l variants options commands)"
touch a.fio b.txt
mkdir DIR

# The last word is the one to be completed; what is offered goes to standard output, a word a line.
cat >bash.sh <<-END
	. "$KP_TOP/completion/kpolicy.bash"
	COMP_WORDS=("\$@") COMP_CWORD=\$((\$# - 1)) COMP_LINE="\$*"
	COMP_POINT=\${#COMP_LINE} COMP_WORDBREAKS=''
	_kpolicy
	printf '%s\n' "\${COMPREPLY[@]}"
END
cat >zsh.sh <<-END
	compadd() {
		local -a words=()
		while [[ \$1 == -[aS] ]]; do
			[[ \$1 == -a ]] && { shift; [[ \$1 == -- ]] && shift; print -rl -- \${(P)1}; return; }
			shift 2
		done
		[[ \$1 == -- ]] && shift
		print -rl -- "\$@"
	}
	_describe() { print -rl -- \${(P)2} | sed 's/:.*//'; }
	_files() { if [[ \$1 == -/ ]]; then print -rl -- *(/N); elif [[ \$1 == -g ]]; then print -rl -- \${~2}(N); else print -rl -- *; fi; }
	typeset -a words=("\$@")
	CURRENT=\$# PREFIX=\${@[-1]}
	set --
	. "$KP_TOP/completion/_kpolicy"
END

completes() { # SHELL
	offers() { "$@" | sort -u >offered; }
	all() { sort "$1" | comm -23 - offered | sed "s|^|$shell does not offer: |" | grep . && fail "of $1" || :; }
	shell=$1
	offers "$shell" "$shell.sh" "$KPOLICY" ''
	all commands
	offers "$shell" "$shell.sh" "$KPOLICY" compare -
	all options
	offers "$shell" "$shell.sh" "$KPOLICY" compare ''
	all variants
	grep -qx a.fio offered && ! grep -qx b.txt offered || fail "$shell: job files"
	offers "$shell" "$shell.sh" "$KPOLICY" show ''
	all variants
	offers "$shell" "$shell.sh" "$KPOLICY" list ''
	[ "$(cat offered)" = "$(sed 's/:.*//' variants | sort -u)" ] || fail "$shell: list"
	offers "$shell" "$shell.sh" "$KPOLICY" report -
	! grep -x -e --output -e --rounds offered || fail "$shell: report has no such option"
	offers "$shell" "$shell.sh" "$KPOLICY" compare --format ''
	[ "$(tr '\n' ' ' <offered)" = 'csv json markdown text ' ] || fail "$shell: formats"
	offers "$shell" "$shell.sh" "$KPOLICY" report ''
	grep -qx DIR offered || fail "$shell: folders"
}
need_command bash
completes bash
if command -v zsh >/dev/null; then
	completes zsh
else
	not_shown "no zsh here"
fi
say "$(wc -l <variants) variants, $(wc -l <options) options of compare"
