// Package deploy tests the manifests in its folder.
package deploy
