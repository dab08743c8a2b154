package experiments

import (
	"fmt"
	"os"
	"path/filepath"
)

// reportFile is the name of the report in a run's folder: where a reader of the repository sees it at once.
const reportFile = "README.md"

// Report draws the plots of results into the folder, writes the report beside them, and returns the files.
func (r *Results) Report(dir string, a About) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("write report: %w", err)
	}
	report := filepath.Join(dir, reportFile)
	if err := os.WriteFile(report, []byte(r.Markdown(a, nil)), 0o644); err != nil {
		return nil, fmt.Errorf("write report: %w", err)
	}
	return []string{report}, nil
}
