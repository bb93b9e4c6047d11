module tagging

go 1.24
