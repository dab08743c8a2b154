package datapath

import (
	"unsafe"

	"github.com/cilium/ebpf"
)

// Command runs a program on behalf of user space (BPF_PROG_TEST_RUN). The command and the keys behind it are the bytes of its packet; c and keys
// are then what the program has made of them.
func Command[C, K any](program *ebpf.Program, c *C, keys []K) error {
	in := append(bytesOf(c, 1), bytesOf(unsafe.SliceData(keys), len(keys))...)
	out := make([]byte, len(in))
	if _, err := program.Run(&ebpf.RunOptions{Data: in, DataOut: out}); err != nil {
		return err
	}
	n := copy(bytesOf(c, 1), out)
	copy(bytesOf(unsafe.SliceData(keys), len(keys)), out[n:])
	return nil
}

// bytesOf is the memory of n values without pointers. Appending to it copies it.
func bytesOf[T any](first *T, n int) []byte {
	size := n * int(unsafe.Sizeof(*first))
	return unsafe.Slice((*byte)(unsafe.Pointer(first)), size)[:size:size]
}
