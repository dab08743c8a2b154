package resume

// tail keeps the last bytes of a stream.
type tail struct {
	keep  int64
	bytes []byte
}

func (t *tail) add(b []byte) {
	if t.keep == 0 {
		return
	}
	b = b[max(0, int64(len(b))-t.keep):]
	if drop := int64(len(t.bytes)+len(b)) - t.keep; drop > 0 {
		t.bytes = append(t.bytes[:0], t.bytes[drop:]...)
	}
	t.bytes = append(t.bytes, b...)
}
