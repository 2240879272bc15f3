# Completion of weir for fish: weir completion fish | source

function __weir_complete
    set -l before (commandline -opc)
    set -l word (commandline -ct)
    for line in ($before[1] __complete $before[2..-1] "$word" 2>/dev/null)
        switch $line
            case :file
                __fish_complete_path (string replace -r '^--[^=]*=' '' -- $word)
            case :folder
                __fish_complete_directories (string replace -r '^--[^=]*=' '' -- $word) ''
            case '*'
                echo $line
        end
    end
end

complete -c weir -f -a '(__weir_complete)'
