package compile

import kernel "baton/datapath/forwarder"

// fuse joins consecutive patches of adjacent bytes, in the packet and in struct fields: both link addresses, or both ports.
func fuse(ops []kernel.Op) []kernel.Op {
	fused := ops[:0]
	for _, op := range ops {
		if len(fused) > 0 {
			last := &fused[len(fused)-1]
			if joined, ok := join(*last, op); ok {
				*last = joined
				continue
			}
		}
		fused = append(fused, op)
	}
	return fused
}

// join merges two patches, in either order.
func join(a, b kernel.Op) (kernel.Op, bool) {
	whole := func(op kernel.Op) bool {
		return op.Kind == kernel.OpPatch && op.Mask == 0 && op.FieldLen == op.Len
	}
	if b.At < a.At {
		a, b = b, a
	}
	if !whole(a) || !whole(b) || a.Base != b.Base || a.Sums != b.Sums || a.At+a.Len != b.At || a.FieldAt+a.FieldLen != b.FieldAt ||
		int(a.Len)+int(b.Len) > len(a.Value) {
		return a, false
	}
	copy(a.Value[a.Len:], b.Value[:b.Len])
	a.Len += b.Len
	a.FieldLen += b.FieldLen
	return a, true
}
