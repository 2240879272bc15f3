#compdef weir
# Completion of weir for zsh: source <(weir completion zsh)

_weir() {
	local line tab=$'\t'
	local -a names texts
	for line in ${(f)"$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"}; do
		case $line in
		(:file)
			[[ $PREFIX == --*=* ]] && compset -P 1 '*='
			_files
			;;
		(:folder)
			[[ $PREFIX == --*=* ]] && compset -P 1 '*='
			_files -/
			;;
		(*)
			names+=("${line%%$tab*}")
			texts+=("${line/$tab/ -- }")
			;;
		esac
	done
	(( ${#names} )) && compadd -l -d texts -a names
	return 0
}

if [[ ${funcstack[1]} == _weir ]]; then
	_weir "$@" # this file was loaded from $fpath
else
	compdef _weir weir
fi
