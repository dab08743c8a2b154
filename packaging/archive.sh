# For package.sh and kubernetes.sh: archive FILE FOLDER writes a folder as a tar file that depends on nothing but its contents, and
# SOURCE_DATE_EPOCH.
archive() { # FILE FOLDER
	tar -C "$2" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=ustar -cf "$1" $(ls "$2")
}
