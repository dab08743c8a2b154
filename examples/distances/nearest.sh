#!/bin/sh
# Writes a router's configuration whose pool with policy nearest uses the measurements of relays.
#
#   nearest.sh router.yaml.in surrogates PREFIX=DISTANCES ... > router.yaml
#
# @NEAREST@ in the template becomes the list of zones. The file of surrogates
# has lines "name address:port", as in the pool. DISTANCES is the output of
# `baton relay distances -o json` on the relay near the clients of the prefix.
# Each zone has all surrogates: the nearest first, those that the relay has not
# measured or that do not answer last. Needs jq.
set -eu
template=$1 surrogates=$2
shift 2
zones=$(
	for place; do
		jq -c --arg prefix "${place%%=*}" --rawfile lines "$surrogates" '
			(.destinations | map(select(.rtt_ns) | {key: .server, value: .rtt_ns}) | from_entries) as $rtt |
			$lines | split("\n") | map(select(length > 0) | split(" ")) |
			{prefix: $prefix, surrogates: (to_entries | sort_by($rtt[.value[1]] // infinite, .key) | map(.value[0]))}
		' "${place#*=}"
	done | jq -sc .
)
sed "s|@NEAREST@|$zones|" "$template"
