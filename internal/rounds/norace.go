//go:build !race

package rounds

const raceDetector = false
