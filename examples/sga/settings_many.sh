# Sourced by the scripts that score translations of several languages: where the references lie below $out, for the target $target.
# reference_of SUBSET LANGUAGE: that of the pair, where its sentences are its own (TED), or the one of all languages.
reference_of() {
    local own=$out/text/$2-$target/$1.$target
    if [ -f "$own" ]; then echo "$own"; else echo "$out/text/$1.$target"; fi
}

# references_of SUBSET LANGUAGES...: options of data_prep.score_languages, in the array references.
references_of() {
    local subset=$1 all=$out/text/$1.$target language found
    shift
    references=()
    for language in "$@"; do
        found=$(reference_of "$subset" "$language")
        [ "$found" = "$all" ] || references+=(--reference "$language=$found")
    done
    [ ${#references[@]} -eq $((2 * $#)) ] || references+=(--reference "$all")
}
