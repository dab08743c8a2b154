package document

// A Decode turns the tree of a file into a C. What it refuses, it refuses at the decoder.
type Decode[C any] func(d *Decoder, root *Node) *C

// Load reads a configuration file, and decodes and checks it. An error about its content is an *Error with all mistakes that were found;
// one about reading it wraps the cause. The caller owns the result.
func Load[C any](path string, rules Rules, decode Decode[C], checks ...func(*Decoder, *C)) (*C, error) {
	data, err := rules.Read(path)
	if err != nil {
		return nil, err
	}
	return ParseAs(path, data, rules, decode, checks...)
}

// ParseAs is Load of a content that is there already; name stands for the file in messages. It returns a C or an *Error, never both.
//
// Each check looks at a C that was decoded without a mistake but names that Refer has refused, and refuses at the decoder what is wrong across
// the document, or with the files that it names.
func ParseAs[C any](name string, data []byte, rules Rules, decode Decode[C], checks ...func(*Decoder, *C)) (*C, error) {
	root, err := Parse(name, data, rules)
	if err != nil {
		return nil, err
	}
	d := NewDecoder(name)
	c := decode(d, root)
	if len(d.mistakes) == d.dangling {
		d.across = true
		for _, check := range checks {
			check(d, c)
		}
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	return c, nil
}
