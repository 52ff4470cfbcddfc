# Keep other runs out of a folder, in bash scripts that read this file.

# lock_output NAME FILE OUTPUT: lock FILE, or end the script NAME because another run is at work in OUTPUT.
# The lock lasts until the script and all that it started have ended. FILE says who holds it and may stay.
lock_output() {
    local status=0 holder
    exec 9<>"$2"
    flock --nonblock 9 || status=$?
    if [ "$status" -eq 1 ]; then
        holder=$(head -c 300 "$2")
        echo "$1: error: $3: another run is at work there (${holder:-its process is not known});" \
            "valid: another folder, or wait for its end" >&2
        exit 1
    elif [ "$status" -ne 0 ]; then
        echo "$1: warning: $3: cannot be locked; nothing keeps another run out, start none" >&2
    fi
    echo "process $$ on $HOSTNAME, or one that it started" >"$2" || true # a full disk
}
