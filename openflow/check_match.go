package openflow

// Check returns the [*Fault] that every 1.3 switch answers the match with: a field that is not known, is there twice, has bits
// outside of its mask or beyond its range, has a mask that the specification does not allow, or stands without its
// prerequisite before it (7.2.3).
func (m Match) Check() error {
	if f := m.check(); f != nil {
		return f
	}
	return nil
}

func (m Match) check() *Fault {
	before := 0 // bytes of the fields already seen
	for t, err := range m.All() {
		if err != nil {
			return fault(BadMatchBadLen, "7.2.3.2", "%v", err)
		}
		if f := m[:before].checkNext(t); f != nil {
			return f
		}
		before += t.size()
	}
	return nil
}

// checkNext judges a field behind those of m.
func (m Match) checkNext(t TLV) *Fault {
	info := t.Field.info()
	if info == nil {
		return fault(BadMatchBadField, "7.2.3.3", "field %v", t.Field)
	}
	if len(t.Value) != info.bytes {
		return fault(BadMatchBadLen, "7.2.3.2", "%v of %d bytes", t.Field, len(t.Value))
	}
	if t.Masked && !info.maskable {
		return fault(BadMatchBadMask, "7.2.3.5", "%v with a mask", t.Field)
	}
	for i := range t.Mask {
		if t.Value[i]&^t.Mask[i] != 0 {
			return fault(BadMatchBadWildcards, "7.2.3.5", "%v has bits that its mask has not", t)
		}
	}
	if info.exceeded(t.Value) {
		return fault(BadMatchBadValue, "7.2.3.7", "%v has more than %d bits", t, info.bits)
	}
	if _, twice := m.Get(t.Field); twice {
		return fault(BadMatchDupField, "7.2.3.4", "%v twice", t.Field)
	}
	if !m.Meets(t.Field) {
		return fault(BadMatchBadPrereq, "7.2.3.6", "%v without what it needs before it", t.Field)
	}
	return nil
}

// exceeded reports whether a value has bits above those of the field.
func (i *fieldInfo) exceeded(value []byte) bool {
	return i.bits < 8*i.bytes && number(value)>>i.bits != 0
}

// Meets reports whether m has what the field needs before it (7.2.3.6): of the alternatives, one. A field that is not known
// needs nothing.
func (m Match) Meets(f Field) bool {
	info := f.info()
	if info == nil || len(info.needs) == 0 {
		return true
	}
	for _, n := range info.needs {
		t, ok := m.Get(n.field)
		if ok && (n.present && t.Uint() != 0 || !n.present && !t.Masked && t.Uint() == n.value) {
			return true
		}
	}
	return false
}
