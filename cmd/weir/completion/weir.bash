# Completion of weir for bash: source <(weir completion bash)

_weir() {
	local word=${COMP_WORDS[COMP_CWORD]} kind line name
	COMPREPLY=()
	while IFS= read -r line; do
		case $line in
		:file | :folder)
			kind=-f
			[[ $line == :folder ]] && kind=-d
			[[ $word == '=' ]] && word=
			compopt -o filenames 2>/dev/null
			while IFS= read -r name; do
				COMPREPLY+=("$name")
			done < <(compgen "$kind" -- "$word")
			;;
		*) COMPREPLY+=("${line%%$'\t'*}") ;;
		esac
	done < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}

complete -F _weir weir
