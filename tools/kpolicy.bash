# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2207 # words never hold blanks here
# Completion of kpolicy for bash: commands, options, variants, job files.

# ENGINE:POLICY as bash sees it: ':' and '=' part words, so all before the last ':' is there already.
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
		COMPREPLY=($(compgen -W 'compare sweep report list show seeds --help --version' -- "$cur"))
		return
	fi
	case $prev in
	--format) COMPREPLY=($(compgen -W 'text markdown csv json' -- "$cur")); return ;;
	--output | --resume | --engine-dir) COMPREPLY=($(compgen -d -- "$cur")); return ;;
	--target | --device | --fio | --plot | --html) COMPREPLY=($(compgen -f -- "$cur")); return ;;
	--over) COMPREPLY=($(compgen -W 'bs= iodepth= numjobs=' -- "$cur")); return ;;
	esac
	if [[ $cur == -* ]]; then
		# The help is made from the table that refuses what a command does not take.
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
	seeds) COMPREPLY=($(compgen -W '1 2 3 4 5' -- "$cur")) ;;
	esac
}

complete -o bashdefault -F _kpolicy kpolicy
