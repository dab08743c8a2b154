package lab

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Labs of several processes come and go at once, and the last one takes the common folder with it.
func TestFoldersOfManyLabs(t *testing.T) {
	root := filepath.Join(t.TempDir(), "labs")
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			path := filepath.Join(root, string(rune('a'+i)))
			for range 2000 {
				if err := makeFolder(path); err != nil {
					t.Error(err)
					return
				}
				if err := os.Remove(path); err != nil {
					t.Error(err)
					return
				}
				_ = os.Remove(root)
			}
		})
	}
	wg.Wait()
}
