;;; sketch-mode.el --- Editing of .sketch files  -*- lexical-binding: t; -*-

;; Package-Requires: ((emacs "28.1") (eglot "1.9"))
;; Version: 0.1.0

;;; Commentary:

;; A major mode for the Unified Sketch language; with eglot the language server of sketchc.

;;; Code:

(require 'eglot)

(defgroup sketch nil "Editing of .sketch files." :group 'languages)

(defcustom sketch-command "sketchc"
  "The program whose `lsp' command is the language server."
  :type 'string)

(defcustom sketch-target "cuda"
  "What the server compiles for: predictions, notes about hints, code that is shown."
  :type '(choice (const "cuda") (const "openmp")))

(defcustom sketch-arch nil
  "The architecture, such as \"sm_90a\"; nil: the target's usual one."
  :type '(choice (const :tag "The usual one" nil) string))

(defvar sketch-mode-syntax-table
  (let ((table (make-syntax-table)))
    (modify-syntax-entry ?# "<" table)
    (modify-syntax-entry ?\n ">" table)
    (modify-syntax-entry ?' "\"" table)
    (modify-syntax-entry ?_ "_" table)
    table))

(defconst sketch-font-lock-keywords
  `((,(regexp-opt '("operator" "sketch" "implements" "view" "case" "edition" "symbols" "tensors" "scalars"
                    "constexpr" "precision" "values" "require" "use" "for" "in" "if" "elif" "else" "and" "or" "not")
                  'symbols)
     . font-lock-keyword-face)
    (,(regexp-opt '("f64" "f32" "bf16" "f16" "f8e4m3" "f8e5m2" "i64" "i32" "i16" "i8" "u64" "u32" "u16" "u8" "bool")
                  'symbols)
     . font-lock-type-face)
    (,(regexp-opt '("true" "false" "True" "False" "num_cores" "num_sms" "warp_size" "simd_width") 'symbols)
     . font-lock-constant-face)
    ("@\\([A-Za-z_]+\\)" 1 font-lock-preprocessor-face)
    ("\\_<\\([A-Za-z_][A-Za-z0-9_]*\\)(" 1 font-lock-function-name-face)))

(defun sketch-indent-line ()
  "Indent the line as the formatter would: a level behind `:' and `{'."
  (interactive)
  (let* ((closes (save-excursion (back-to-indentation) (looking-at "}\\|else\\_>\\|elif\\_>")))
         (level (save-excursion
                  (beginning-of-line)
                  (if (not (re-search-backward "^[ \t]*[^ \t\n]" nil t)) 0
                    (+ (current-indentation)
                       (if (save-excursion (end-of-line) (looking-back "[:{][ \t]*\\(#.*\\)?" (line-beginning-position))) 4 0))))))
    (save-excursion (indent-line-to (max 0 (if closes (- level 4) level))))
    (when (< (current-column) (current-indentation)) (back-to-indentation))))

;;;###autoload
(define-derived-mode sketch-mode prog-mode "Sketch"
  "Major mode for Unified Sketches."
  (setq-local comment-start "# ")
  (setq-local comment-end "")
  (setq-local indent-tabs-mode nil)
  (setq-local tab-width 4)
  (setq-local indent-line-function #'sketch-indent-line)
  (setq-local font-lock-defaults '(sketch-font-lock-keywords)))

;;;###autoload
(add-to-list 'auto-mode-alist '("\\.sketch\\'" . sketch-mode))

(add-to-list 'eglot-server-programs
             '(sketch-mode . (lambda (&rest _)
                               (list sketch-command "lsp" :initializationOptions
                                     (append (list :target sketch-target) (and sketch-arch (list :arch sketch-arch)))))))

(defun sketch-show (form)
  "Show the sketch at point as FORM: graph, tile, kernel, cuda, ptx or c."
  (interactive (list (completing-read "Form: " '("graph" "tile" "kernel" "cuda" "ptx" "c") nil t)))
  (let* ((position (eglot--pos-to-lsp-position))
         (uri (plist-get (eglot--TextDocumentIdentifier) :uri))
         (result (jsonrpc-request (eglot-current-server) :workspace/executeCommand
                                  `(:command "sketchc.show" :arguments [(:uri ,uri :position ,position :form ,form)]))))
    (with-current-buffer (get-buffer-create (format "*sketch %s*" form))
      (let ((inhibit-read-only t))
        (erase-buffer)
        (insert (plist-get result :text))
        (goto-char (point-min)))
      (special-mode)
      (display-buffer (current-buffer)))))

(provide 'sketch-mode)
;;; sketch-mode.el ends here
