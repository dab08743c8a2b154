// Package state has what a router decides by: one immutable snapshot, made of the configuration, the numbers of its pools and
// surrogates in the data path, their health and their policies. It has no goroutine, reads no kernel and needs no root.
package state
