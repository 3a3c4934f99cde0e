package sqlitestore

import "syscall"

// networkFS names the file system of path if it is one that SQLite's locks do
// not work on. Numbers are those of statfs(2).
func networkFS(path string) (string, bool) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(path, &fs); err != nil {
		return "", false // opening the file will say it better
	}
	name, ok := map[uint32]string{
		0x6969:     "NFS",
		0x517b:     "SMB",
		0xff534d42: "CIFS",
		0xfe534d42: "SMB2",
		0x01021997: "9p",
		0x5346414f: "AFS",
		0x00c36400: "Ceph",
		0x0bd00bd0: "Lustre",
		0x47504653: "GPFS",
	}[uint32(fs.Type)]
	return name, ok
}

// freeSpace is how many bytes a user may still write to the file system of path.
func freeSpace(path string) (int64, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(path, &fs); err != nil {
		return 0, err
	}
	return int64(fs.Bavail) * int64(fs.Bsize), nil //nolint:unconvert // other processors have an int32
}
