package experiments

import (
	"fmt"
	"os"
	"path/filepath"
)

// reportFile is the report's name in a run's folder, which repository browsers show automatically.
const reportFile = "README.md"

// Report draws the plots into the folder, writes the report, and returns the files.
func (r *Results) Report(dir string, a About) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("write report: %w", err)
	}
	drawn, files, err := r.drawAll(dir, a.Plots)
	if err != nil {
		return nil, err
	}
	report := filepath.Join(dir, reportFile)
	if err := os.WriteFile(report, []byte(r.Markdown(a, drawn)), 0o644); err != nil {
		return nil, fmt.Errorf("write report: %w", err)
	}
	return append([]string{report}, files...), nil
}

// drawAll writes each plot as SVG; without any, the default ones. What was not measured has no plot.
func (r *Results) drawAll(dir string, plots []Plot) (drawn []Drawn, files []string, err error) {
	if len(plots) == 0 {
		plots = r.defaultPlots()
	}
	for _, p := range plots {
		pic, ok := r.picture(p)
		if !ok {
			continue
		}
		b, err := pic.svg()
		if err != nil {
			return nil, nil, err
		}
		file := filepath.Join(dir, pic.file+".svg")
		if err := os.WriteFile(file, b, 0o644); err != nil {
			return nil, nil, fmt.Errorf("write plot: %w", err)
		}
		files = append(files, file)
		drawn = append(drawn, Drawn{pic.file, pic.measure, pic.title})
	}
	return drawn, files, nil
}
