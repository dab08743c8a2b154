package openflow

import "fmt"

// ErrorType is the type of an error message (7.4.4).
type ErrorType uint16

func (t ErrorType) String() string {
	if n, ok := errorNames[t]; ok {
		return n.name
	}
	return fmt.Sprint(uint16(t))
}

// Code is the type and code of an error message (7.4.4): the type in the upper half, the code in the lower one.
type Code uint32

// Type returns the type.
func (c Code) Type() ErrorType { return ErrorType(c >> 16) }

// Number returns the code within its type.
func (c Code) Number() uint16 { return uint16(c) }

// String is as in "BAD_REQUEST/BAD_LEN".
func (c Code) String() string {
	n, ok := errorNames[c.Type()]
	if !ok || int(c.Number()) >= len(n.codes) {
		return fmt.Sprintf("%v/%d", c.Type(), c.Number())
	}
	return n.name + "/" + n.codes[c.Number()]
}

// Fault is what is wrong with a message, as the specification would have a switch say it.
type Fault struct {
	Code Code
	// Section is where the specification demands what was missed.
	Section string
	Text    string
}

func (f *Fault) Error() string { return fmt.Sprintf("%v: %s (%s)", f.Code, f.Text, f.Section) }

// quoted is how much of a refused message an error repeats, in bytes: at least 64, if there are as many (7.4.4).
const quoted = 64

// Answer is the error message that refuses request, with the start of it. The data is a slice of request.
func (f *Fault) Answer(request []byte) *Error {
	return &Error{Code: f.Code, Data: request[:min(len(request), quoted)]}
}

func fault(c Code, section, format string, args ...any) *Fault {
	return &Fault{c, section, fmt.Sprintf(format, args...)}
}

// tooShort is the fault of a message or part of one that ends before what it must hold.
func tooShort(section, what string, have int) *Fault {
	return fault(BadRequestBadLen, section, "%s of %d bytes", what, have)
}
