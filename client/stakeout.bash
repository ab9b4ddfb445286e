# SPDX-License-Identifier: GPL-2.0-or-later
# bash completion for stakeout. Commands and options are those that --help prints, so a new one needs no change here.

_stakeout_commands()
{
	"$1" --help 2>/dev/null | sed -n '/^Commands/,/^$/s/^  \([a-z][a-z-]*\) .*/\1/p'
}

# The names of all options of a command, or of those before it.
_stakeout_options()
{
	"$@" --help 2>/dev/null | grep -oE '^ +(-[A-Za-z](, --[a-z-]+)?|--[a-z-]+)' | tr -d ,
}

# What --help calls the value of an option, or nothing where it takes none.
_stakeout_argument()
{
	local option=$1

	shift
	"$@" --help 2>/dev/null | grep -E -- "^ +(-., +)?$option( |,)" |
		sed -nE '1s/^ +(-., +)?--[a-z-]+ ([A-Z=]+) .*/\2/p'
}

# All processes but kernel threads, which have no command line; and how they are called, but for names with blanks.
_stakeout_pids()
{
	local dir comm

	for dir in /proc/[0-9]*; do
		if [ -r "$dir/cmdline" ] && read -r -n 1 _ 2>/dev/null < "$dir/cmdline"; then
			echo "${dir#/proc/}"
			read -r comm 2>/dev/null < "$dir/comm" && [[ $comm =~ ^[[:alnum:]._+-]+$ ]] && echo "$comm"
		fi
	done
}

_stakeout()
{
	local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} program=${COMP_WORDS[0]}
	local command='' at argument

	COMPREPLY=()
	for ((at = 1; at < COMP_CWORD; at++)); do
		case ${COMP_WORDS[at]} in
		--socket) at=$((at + 1)) ;;
		-*) ;;
		*)
			command=${COMP_WORDS[at]}
			break
			;;
		esac
	done
	if [ -z "$command" ]; then
		case $previous,$word in
		--socket,*) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
		*,-*) mapfile -t COMPREPLY < <(compgen -W "$(_stakeout_options "$program")" -- "$word") ;;
		*) mapfile -t COMPREPLY < <(compgen -W "$(_stakeout_commands "$program")" -- "$word") ;;
		esac
		return
	fi
	case $previous in
	-[A-Za-z] | --*) argument=$(_stakeout_argument "$previous" "$program" "$command") ;;
	*) argument= ;;
	esac
	case $argument,$word in
	PID,*) mapfile -t COMPREPLY < <(compgen -W "$(_stakeout_pids)" -- "$word") ;;
	FORMAT,*)
		if [ "$command" = record ]; then
			mapfile -t COMPREPLY < <(compgen -W "folded html speedscope firefox trace pprof" -- "$word")
		elif [ "$command" = memory ]; then
			mapfile -t COMPREPLY < <(compgen -W "folded html speedscope firefox pprof" -- "$word")
		elif [ "$command" = diff ]; then
			mapfile -t COMPREPLY < <(compgen -W "text markdown json html" -- "$word")
		elif [ "$command" = baseline ]; then
			mapfile -t COMPREPLY < <(compgen -W "text markdown json" -- "$word")
		else
			mapfile -t COMPREPLY < <(compgen -W "folded html speedscope firefox trace pprof summary" -- "$word")
		fi
		;;
	UNIT,*) mapfile -t COMPREPLY < <(compgen -W "step run second cpu" -- "$word") ;;
	SECONDS,*) mapfile -t COMPREPLY < <(compgen -W "10 60 unlimited" -- "$word") ;;
	FILE,*) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
	,-*) mapfile -t COMPREPLY < <(compgen -W "$(_stakeout_options "$program" "$command")" -- "$word") ;;
	,*)
		case $command in
		baseline) mapfile -t COMPREPLY < <(compgen -f -W "save check list" -- "$word") ;;
		diff | memory | render | steps | summary) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
		esac
		;;
	esac
}

complete -F _stakeout stakeout
