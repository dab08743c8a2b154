package experiments

// Plot describes a picture of a measure.
type Plot struct {
	Measure string
	Title   string // default: the measure's
}

// Drawn is a picture that was written: File.svg and File.png.
type Drawn struct{ File, Measure, Title string }
