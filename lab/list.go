package lab

import "path/filepath"

// Folder is the folder of a lab on this machine, and whether its owner lives. Sweep removes it where not.
type Folder struct {
	Path  string
	Owner int // process
	Alive bool
}

// Folders lists the labs on this machine, of all processes.
func Folders() []Folder {
	var found []Folder
	for _, path := range folders() {
		if o, ours := ownerOf(filepath.Base(path)); ours {
			found = append(found, Folder{path, o.pid, o.alive()})
		}
	}
	return found
}
