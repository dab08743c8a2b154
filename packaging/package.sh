#!/bin/sh
# Makes the packages in dist/: deb and rpm of baton and baton-cdn, images, a bill of materials, licences, checksums. The same commit gives the same
# bytes: times are the commit's, and paths of this machine are in no file.
#
#   ARCHES="amd64 arm64" FORMATS="deb rpm oci sbom" packaging/package.sh [FOLDER]
set -eu
cd "$(dirname "$0")/.."
dist=${1:-dist}
arches=${ARCHES:-amd64 arm64}
formats=${FORMATS:-deb rpm oci sbom}
GO=${GO:-$(packaging/go.sh)}
VERSION=$(packaging/version.sh)
SOURCE_DATE_EPOCH=$(packaging/version.sh --date)
export GO BATON_VERSION="$VERSION" SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC GOFLAGS="${GOFLAGS:--buildvcs=false}"
umask 022

wants() { case " $formats " in *" $1 "*) ;; *) return 1 ;; esac; }
# Runs a tool of packaging/tools; what it says counts only if it fails.
tool() {
	name=$1
	shift
	"$tools/$name" "$@" 2>"$made/tool.log" || {
		cat "$made/tool.log" >&2
		exit 1
	}
}
. packaging/archive.sh

# PACKAGE's parts, and what its scripts do to them at an upgrade: packaging/scripts/postinst.
parts_of() { case $1 in baton) echo "router forwarder relay anycast balance purge" ;; baton-cdn) echo "controller nameserver" ;; esac; }
restarted() { case $1 in baton) echo "purge" ;; baton-cdn) echo "controller nameserver" ;; esac; }
killed() { case $1 in baton) echo "router balance" ;; esac; }
left() { case $1 in baton) echo "forwarder relay anycast" ;; esac; }
purged() {
	case $1 in
	baton)
		printf '%s\\n' 'rm -rf /run/baton /var/lib/baton /var/log/baton' 'if [ -d /run/systemd/system ]; then' '	rm -rf /sys/fs/bpf/baton /sys/fs/bpf/baton_* /sys/fs/bpf/baton-forwarder' 'fi'
		;;
	esac
}

# What is in a program and no Go module: the web page is built with Preact.
also() {
	case $1 in baton-cdn) echo "-also preact@$(sed -n 's/.*"preact": "\(.*\)".*/\1/p' dashboard/web/package.json)=packaging/third-party/preact.txt" ;; esac
}

# Files that are the same for all processors.
common() { # PACKAGE
	package=$1 stage=$made/$1
	mkdir -p "$stage/units" "$stage/scripts" "$stage/share/man/man1" "$stage/share/doc/$package" "$stage/share/baton/schema" \
		"$stage/share/bash-completion/completions" "$stage/share/fish/vendor_completions.d"
	for part in $(parts_of "$package"); do
		sed '/^# useradd /d; s#/usr/local/bin/#/usr/bin/#g' "packaging/baton-$part.service" >"$stage/units/baton-$part.service"
		cp "packaging/schema/$part.schema.json" "$stage/share/baton/schema/"
	done
	for script in postinst prerm postrm; do
		sed "s#@PACKAGE@#$package#g; s#@PARTS@#$(parts_of "$package")#g; s#@RESTART@#$(restarted "$package")#; s#@KILL@#$(killed "$package")#
			s#@LEAVE@#$(left "$package")#; s#^@PURGE@\$#$(purged "$package")#" "packaging/scripts/$script" >"$stage/scripts/$script"
		chmod 755 "$stage/scripts/$script"
	done
	BATON_MAN=$stage/share/man/man1 "$made/here/$package"
	gzip -9n "$stage/share/man/man1"/*.1
	"$made/here/$package" completion bash >"$stage/share/bash-completion/completions/$package"
	"$made/here/$package" completion fish >"$stage/share/fish/vendor_completions.d/$package.fish"
	"$made/here/$package" completion zsh >"$stage/_$package"
	gzip -9nc CHANGELOG.md >"$stage/share/doc/$package/changelog.gz"
	cp LICENSE "$stage/share/doc/$package/LICENSE"
	cat packaging/copyright >"$stage/share/doc/$package/copyright"
	tool licences $(also "$package") -o "$stage/share/doc/$package/third-party-licences.txt" "$package" >"$made/$package.licences.csv"
	case $package in
	baton)
		mkdir -p "$stage/share/baton/prometheus" "$stage/share/baton/grafana" "$stage/share/doc/baton/examples"
		cp packaging/prometheus/*.yaml "$stage/share/baton/prometheus/"
		rm -f "$stage/share/baton/prometheus/tests.yaml"
		cp packaging/grafana/*.json "$stage/share/baton/grafana/"
		cp examples/*.yaml "$stage/share/doc/baton/examples/"
		cp LICENSES/*.txt docs/upgrading.md "$stage/share/doc/baton/"
		;;
	baton-cdn) cp packaging/schema/policy.schema.json "$stage/share/baton/schema/" ;;
	esac
}

for needed in jq tar gzip; do
	command -v $needed >/dev/null || {
		echo "package: $needed is not installed: make deps installs it" >&2
		exit 1
	}
done
if [ $# = 0 ]; then
	rm -rf dist
elif [ -e "$dist" ]; then
	echo "package: $dist exists: name a folder that does not" >&2
	exit 1
fi
made=$dist/build
mkdir -p "$made/here" "$made/tools"
tools=$(cd "$made/tools" && pwd)
"$GO" build -C packaging/tools -o "$tools/" ./... tool
"$GO" build -o "$tools/" ./packaging/licences
TAGS=man packaging/build.sh "$made/here" baton baton-cdn
for package in baton baton-cdn; do common "$package"; done
for arch in $arches; do
	GOARCH=$arch packaging/build.sh "$made/$arch" baton baton-cdn
done
find "$made" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

for arch in $arches; do
	for package in baton baton-cdn; do
		cp -p "$made/$arch/$package" "$made/$package/$package"
		sed "/^#/d; s#\$STAGE#$made/$package#; s#\$ARCH#$arch#; s#\$VERSION#$VERSION#" "packaging/nfpm/$package.yaml" >"$made/$package.yaml"
		for format in deb rpm; do
			if wants "$format"; then
				tool nfpm package --config "$made/$package.yaml" --packager "$format" --target "$dist/" >/dev/null
			fi
		done
		rm "$made/$package/$package"
	done
done
for package in baton baton-cdn; do
	if wants oci; then
		for arch in $arches; do
			root=$made/$arch/root
			rm -rf "$root"
			mkdir -p "$root/usr/bin" "$root/etc/baton" "$root/run/baton" "$root/tmp"
			chmod 1777 "$root/tmp"
			cp "$made/$arch/$package" "$root/usr/bin/"
			archive "$made/$arch/$package.tar" "$root"
		done
		# "~" is for package managers; a tag cannot have it.
		tool image -tag "$package:$(echo "$VERSION" | tr '~+' '--')" -date "$SOURCE_DATE_EPOCH" \
			-o "$made/$package-image" $(for arch in $arches; do echo "$arch=$made/$arch/$package.tar"; done)
		archive "$dist/${package}_${VERSION}_oci.tar" "$made/$package-image"
	fi
	if wants sbom; then
		cp "$made/$package.licences.csv" "$dist/${package}_${VERSION}_licences.csv"
		for arch in $arches; do
			tool cyclonedx-gomod bin -json -std -noserial -notimestamp -version "$VERSION" -output "$made/sbom.json" "$made/$arch/$package"
			jq --rawfile licences "$made/$package.licences.csv" --arg date "$SOURCE_DATE_EPOCH" --arg name "$package" \
				--arg licence "$(sed -n 's/^license: //p' "packaging/nfpm/$package.yaml")" -f packaging/sbom.jq "$made/sbom.json" \
				>"$dist/${package}_${VERSION}_${arch}_sbom.cdx.json"
		done
	fi
done
rm -rf "$made"
(cd "$dist" && sha256sum -- * >SHA256SUMS)
echo "package: $VERSION in $dist/"
