package page

import "html/template"

// functions are those of the templates.
var functions = template.FuncMap{
	"jobURL": jobURL,
	"runURL": runURL,
}
