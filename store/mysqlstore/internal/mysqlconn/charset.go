package mysqlconn

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/lease"
)

const defaultCharset = "utf8mb4"

// charsets are the character sets that a DSN may choose for Store.DB: UTF-8, and
// those of one byte in which ASCII is ASCII. In the others a backslash or a
// quote can be the second half of a character (big5, cp932, gb18030, gbk, sjis),
// so that a value that was escaped byte by byte ends its literal early, or one
// cannot tell (gb2312, euckr, ujis, eucjpms, swe7); and the server takes no
// statements in ucs2, utf16, utf16le and utf32.
var charsets = []string{
	"utf8mb4", "utf8mb3", "utf8", "ascii", "binary",
	"armscii8", "cp1250", "cp1251", "cp1256", "cp1257", "cp850", "cp852", "cp866", "dec8", "geostd8", "greek", "hebrew", "hp8",
	"keybcs2", "koi8r", "koi8u", "latin1", "latin2", "latin5", "latin7", "macce", "macroman", "tis620",
}

var unsafeCharsets = []string{
	"big5", "cp932", "eucjpms", "euckr", "gb18030", "gb2312", "gbk", "sjis", "swe7", "ucs2", "ujis", "utf16", "utf16le", "utf32",
}

var errCollation = errors.New("its collation cannot be used: remove it, or choose one of utf8mb4")

// setCharset makes each connection of the settings declare the character set that
// it uses. Without that, a server with skip_character_set_client_handshake, or an
// init_connect, decides instead, and misinterprets the text that it stores.
func setCharset(c *mysql.Config, names []string) error {
	if c.Collation != "" && !wordRule.MatchString(c.Collation) { // it becomes a part of SET NAMES
		return errors.New("charset or collation is not understood: remove it, or choose utf8mb4")
	}
	prefix, _, _ := strings.Cut(strings.ToLower(c.Collation), "_")
	for _, name := range append(slices.Clone(names), prefix) {
		switch name = strings.ToLower(name); {
		case name == "" || slices.Contains(charsets, name):
		case slices.Contains(unsafeCharsets, name):
			return fmt.Errorf("%w: charset or collation: %s is not safe for text of applications: remove it, and the connection is utf8mb4, which the server converts to and from the character set of each column",
				lease.ErrSetup, name)
		default:
			return errors.New("charset or collation is not understood: remove it, or choose utf8mb4")
		}
	}
	charset := defaultCharset
	switch {
	case len(names) > 0:
		charset = strings.ToLower(names[0])
	case prefix != "":
		charset = prefix
	}
	return c.Apply(mysql.Charset(charset, c.Collation))
}
