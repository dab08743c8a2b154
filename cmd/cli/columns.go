package cli

import (
	"bufio"
	"io"
	"unicode/utf8"
)

// alignedRows is how many rows, with the heading, choose the widths of Columns.
const alignedRows = 200

// Columns prints a table of any length as its rows come. Its first rows choose the widths: a tabwriter would keep all
// rows, of which there may be a million.
type Columns struct {
	out    *bufio.Writer
	first  [][]string // until the widths are chosen
	widths []int      // nil: not chosen
}

// NewColumns starts a table with a heading.
func NewColumns(out io.Writer, heading ...string) *Columns {
	return &Columns{out: bufio.NewWriterSize(out, 1<<16), first: [][]string{heading}}
}

// AddRow prints a row, or keeps it until the widths are chosen. A cell that is wider than its column moves the rest of
// its row.
func (c *Columns) AddRow(cells ...string) error {
	if c.widths != nil {
		return c.writeRow(cells)
	}
	c.first = append(c.first, cells)
	if len(c.first) < alignedRows {
		return nil
	}
	return c.Flush()
}

// Flush prints what is kept. The last call ends the table.
func (c *Columns) Flush() error {
	if c.widths == nil {
		c.chooseWidths()
		for _, cells := range c.first {
			if err := c.writeRow(cells); err != nil {
				return err
			}
		}
		c.first = nil
	}
	return c.out.Flush()
}

func (c *Columns) chooseWidths() {
	c.widths = make([]int, len(c.first[0]))
	for _, cells := range c.first {
		for i, cell := range cells {
			c.widths[i] = max(c.widths[i], utf8.RuneCountInString(cell))
		}
	}
}

const spaces = "                                                                "

func (c *Columns) writeRow(cells []string) error {
	for i, cell := range cells {
		if _, err := c.out.WriteString(cell); err != nil {
			return err
		}
		if i == len(cells)-1 {
			break
		}
		gap := max(c.widths[i]-utf8.RuneCountInString(cell), 0) + 2
		for ; gap > len(spaces); gap -= len(spaces) {
			_, _ = c.out.WriteString(spaces) // the error stays
		}
		_, _ = c.out.WriteString(spaces[:gap])
	}
	return c.out.WriteByte('\n')
}
