# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2207 # no word here holds blanks
# Completion of kpolicy for bash. Variants come from `kpolicy list`, options from a command's --help.

# _kpolicy_variants KPOLICY WORD: bash takes ':' and '=' for ends of words, so that the part of WORD up
# to its last ':' is on the command line already and is left out of each reply.
_kpolicy_variants() {
	local names
	names=$("$1" list 2>/dev/null | sed -n 's/^\([a-z]*:[^ ][^ ]*\) .*/\1/p')
	COMPREPLY=($(compgen -W "$names native" -- "$2"))
	if [[ $2 == *:* && $COMP_WORDBREAKS == *:* ]]; then
		COMPREPLY=("${COMPREPLY[@]#"${2%"${2##*:}"}"}")
	fi
}

_kpolicy() {
	local command=${COMP_WORDS[1]} line=${COMP_LINE:0:COMP_POINT}
	local cur=${line##*[[:space:]]} prev=${COMP_WORDS[COMP_CWORD - 1]}
	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		COMPREPLY=($(compgen -W 'compare sweep report list show reproduce --help --version' -- "$cur"))
		return
	fi
	case $prev in
	--format) COMPREPLY=($(compgen -W 'text markdown csv json' -- "$cur")); return ;;
	--output | --resume | --engine-dir) COMPREPLY=($(compgen -d -- "$cur")); return ;;
	--target | --device | --fio | --plot | --html) COMPREPLY=($(compgen -f -- "$cur")); return ;;
	--over) COMPREPLY=($(compgen -W 'bs= iodepth= numjobs=' -- "$cur")); return ;;
	esac
	if [[ $cur == -* ]]; then
		local options
		options=$("${COMP_WORDS[0]}" "$command" --help 2>/dev/null | grep -oE -- '(^| ) --[a-z-]+')
		COMPREPLY=($(compgen -W "$options --help" -- "$cur"))
		return
	fi
	case $command in
	compare | sweep)
		_kpolicy_variants "${COMP_WORDS[0]}" "$cur"
		[[ $cur == *:* ]] || COMPREPLY+=($(compgen -f -X '!*.fio' -- "$cur") $(compgen -d -S / -- "$cur"))
		;;
	show) _kpolicy_variants "${COMP_WORDS[0]}" "$cur" ;;
	list)
		_kpolicy_variants "${COMP_WORDS[0]}" ''
		COMPREPLY=($(compgen -W "$(printf '%s\n' "${COMPREPLY[@]%%:*}" | sort -u | grep -v native)" -- "$cur"))
		;;
	report) COMPREPLY=($(compgen -d -- "$cur")) ;;
	reproduce | seeds) COMPREPLY=($(compgen -W '1 2 3 4 5' -- "$cur")) ;;
	esac
}

complete -o bashdefault -F _kpolicy kpolicy
