package document

// A Decode turns the tree of a file into a C, and refuses mistakes at the decoder.
type Decode[C any] func(d *Decoder, root *Node) *C

// Load reads, decodes and checks a configuration file. An error in its content is an *Error with all mistakes; an error while reading
// it wraps the cause. The caller owns the result.
func Load[C any](path string, rules Rules, decode Decode[C], checks ...func(*Decoder, *C)) (*C, error) {
	data, err := rules.Read(path)
	if err != nil {
		return nil, err
	}
	return ParseAs(path, data, rules, decode, checks...)
}

// ParseAs is Load of a content that is there already; name stands for the file in messages. It returns a C or an *Error, never both.
//
// Each check gets a C that was decoded without mistakes, except names that Refer has refused, and refuses mistakes across the document, or in
// the files that it names, at the decoder. If values have mistakes, the checks get a C of the others, as far as there is one.
func ParseAs[C any](name string, data []byte, rules Rules, decode Decode[C], checks ...func(*Decoder, *C)) (*C, error) {
	root, twice, err := read(name, data, rules)
	if err != nil {
		return nil, err
	}
	d := NewDecoder(name)
	c := decode(d, root)
	if d.mistakes, d.kept = append(d.mistakes, twice...), d.kept+len(twice); d.err == nil && len(twice) > 0 {
		d.err = twice[0]
	}
	if len(d.mistakes) == d.kept {
		d.across = true
		for _, check := range checks {
			check(d, c)
		}
	} else if len(d.mistakes) < mostSought {
		findMore(d, root, decode, checks)
	}
	if err := d.Refused(); err != nil {
		return nil, err
	}
	return c, nil
}
