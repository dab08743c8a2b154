#!/bin/sh
# Strips an object for bpf2go: of debugging information, and of the relocations
# of .BTF and .BTF.ext. Only linkers of objects read those; they are a quarter
# of the router's object, which is in the program.
set -eu
llvm-strip-19 "$@"
for object; do
	case $object in
	*.o) llvm-objcopy-19 --remove-section=.rel.BTF --remove-section=.rel.BTF.ext "$object" ;;
	esac
done
