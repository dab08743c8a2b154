// Package kernels tests Baton on other kernels than this machine's, in guests.
//
// TestKernels is a part of every `make test`: on the kernels that the file quick names, all BPF programs load and the router serves.
// TestKernelMatrix is ring 5: every program's tests, labs of each part and the package, on each series that Debian's archive has. It keeps
// what passed in bin/kernels and goes on from there; with -update it writes docs/kernels.md.
package kernels
