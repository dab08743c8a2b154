# Completes the bill of materials that cyclonedx-gomod makes of a program, which is $name: $licences are the lines of its licences.csv. What depends on the machine
# that ran the tool is left out.
($licences | split("\n") | map(select(. != "") | split(",")) | map({name: .[0], version: .[1], licenses: (.[2] | split(" ") | map({license: {id: .}}))})) as $parts
| ($parts | map({key: .name, value: .licenses}) | from_entries) as $terms
| .metadata.timestamp = ($date | tonumber | todate)
| del(.metadata.tools[]?.hashes)
| .metadata.component.name = $name
| .metadata.component.licenses = [{expression: $licence}]
| .components |= map(.licenses = ($terms[if .name == "std" then "Go's standard library" else .name end] // error("no licence of " + .name)))
# The web page's library is no module of Go.
| .components += [$parts[] | select(.name == "preact") | {
    "bom-ref": "pkg:npm/preact@\(.version)", type: "library", name, version, scope: "required", purl: "pkg:npm/preact@\(.version)", licenses
  }]
