package openflow

// Check returns the [*Fault] that every 1.3 switch answers the match with: for an unknown or duplicate field, bits outside of its mask or its
// range, a mask that the specification does not allow, or a missing prerequisite (7.2.3).
func (m Match) Check() error {
	if f := m.check(); f != nil {
		return f
	}
	return nil
}

func (m Match) check() *Fault {
	before := 0        // bytes of the fields already seen
	var numbers uint64 // of the class OPENFLOW_BASIC that were seen, as bits
	for t, err := range m.All() {
		if err != nil {
			return fault(BadMatchBadLen, "7.2.3.2", "%v", err)
		}
		info := t.Field.info()
		if info == nil {
			return fault(BadMatchBadField, "7.2.3.3", "field %v", t.Field)
		}
		if f := t.check(info); f != nil {
			return f
		}
		twice := false
		if bit := uint64(1) << (t.Field.Number() & 63); t.Field.Class() == ClassBasic {
			twice, numbers = numbers&bit != 0, numbers|bit
		} else {
			_, twice = m[:before].Get(t.Field)
		}
		if twice {
			return fault(BadMatchDupField, "7.2.3.4", "%v twice", t.Field)
		}
		if !m[:before].hasPrerequisite(info) {
			return fault(BadMatchBadPrereq, "7.2.3.6", "%v without its prerequisite", t.Field)
		}
		before += t.size()
	}
	return nil
}

// check judges a field of a match by itself.
func (t TLV) check(info *fieldInfo) *Fault {
	if len(t.Value) != info.bytes {
		return fault(BadMatchBadLen, "7.2.3.2", "%v of %d bytes", t.Field, len(t.Value))
	}
	if t.Masked && !info.maskable {
		return fault(BadMatchBadMask, "7.2.3.5", "%v with a mask", t.Field)
	}
	for i := range t.Mask {
		if t.Value[i]&^t.Mask[i] != 0 {
			return fault(BadMatchBadWildcards, "7.2.3.5", "%v has bits outside of its mask", t)
		}
	}
	if info.exceeded(t.Value) {
		return fault(BadMatchBadValue, "7.2.3.7", "%v has more than %d bits", t, info.bits)
	}
	return nil
}

// exceeded reports whether a value has bits above those of the field.
func (i *fieldInfo) exceeded(value []byte) bool {
	return i.bits < 8*i.bytes && number(value)>>i.bits != 0
}

// HasPrerequisite reports whether m has what the field needs before it (7.2.3.6): of the alternatives, one. A field that is not known
// needs nothing.
func (m Match) HasPrerequisite(f Field) bool {
	info := f.info()
	return info == nil || m.hasPrerequisite(info)
}

func (m Match) hasPrerequisite(info *fieldInfo) bool {
	for _, n := range info.needs {
		t, ok := m.Get(n.field)
		if ok && (n.present && t.Uint() != 0 || !n.present && !t.Masked && t.Uint() == n.value) {
			return true
		}
	}
	return len(info.needs) == 0
}
