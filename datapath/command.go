package datapath

import (
	"encoding/binary"

	"github.com/cilium/ebpf"
)

// Command runs a program on behalf of user space (BPF_PROG_TEST_RUN). The command and the keys behind it are the bytes of its packet; c is then
// what the program has made of the command.
func Command[C, K any](program *ebpf.Program, c *C, keys []K) error {
	in, err := binary.Append(nil, binary.NativeEndian, c)
	if err == nil && len(keys) > 0 {
		in, err = binary.Append(in, binary.NativeEndian, keys)
	}
	if err != nil {
		return err
	}
	out := make([]byte, len(in))
	if _, err := program.Run(&ebpf.RunOptions{Data: in, DataOut: out}); err != nil {
		return err
	}
	_, err = binary.Decode(out, binary.NativeEndian, c)
	return err
}
