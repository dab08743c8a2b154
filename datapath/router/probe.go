package router

import "baton/datapath"

// Needs is what the router's data path needs of a host.
var Needs = []datapath.Need{
	{Feature: datapath.Kernel},
	{Feature: datapath.CapNetAdmin, For: "attach programs and make the tap"},
	{Feature: datapath.CapBPF, For: "load programs and maps"},
	{Feature: datapath.CapNetRaw, For: "open server legs"},
	{Feature: datapath.CapPerfmon, For: "skip the checks for unprivileged programs; CAP_SYS_ADMIN includes it"}, // in which the verifier of Linux 6.18 fails
	{Feature: datapath.BPF, For: "load programs"},
	{Feature: datapath.BPFFileSystem, For: "keep sessions while its process is replaced"},
	{Feature: datapath.Tun, For: "pass packets to its process"},
	{Feature: datapath.TCX, For: "attach programs to interfaces"},
	{Feature: datapath.JIT, For: "call functions of the kernel"},
	{Feature: datapath.BTF, For: "call functions of the kernel"},
	{Feature: datapath.SYNCookies, For: "answer clients' SYNs"},
	{Feature: datapath.AssignTCP, For: "proxy what cannot be spliced"},
	{Feature: datapath.IPv6, Without: "IPv4 only"},
	{Feature: datapath.ProgramsOf("router", loadRouter)},
}

// Probe reports what the kernel or the user's capabilities lack for the router's data path.
func Probe() error { return datapath.Require("router", Needs) }
