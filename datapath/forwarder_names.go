package datapath

//go:generate go run ./names -type forwarderVerdict -in forwarder_bpfel.go -out forwarder_verdict_names.go -var forwarderVerdictNames
